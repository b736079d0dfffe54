"""Start a collector, a server and a worker; run one job that fails once; print its trace."""

import sys

from examples.demo.programs import DemoError, Interrupts, Stage
from examples.trace.collector import Collector, Span
from examples.trace.tree import tree
from jobqueue.client import Client, JobSpec
from jobqueue.errors import JobQueueError

_SETTINGS = {
    "JQ_RETRY_BASE_DELAY_S": "0.2",
    # Any free port.
    "JQ_GRPC_PORT": "0",
    "JQ_HEALTH_PORT": "0",
    "JQ_METRICS_PORT": "0",
}
_EXPECTED = {"submit_job": 1, "acquire_lease": 2, "execute_job": 2, "ack_job": 2}
_LOOKS, _LOOK_AGAIN_S = 300, 0.1


def _run(collector: Collector, interrupts: Interrupts) -> list[Span]:
    """Return the spans of one job. Raises DemoError when they do not all come."""
    with Stage(_SETTINGS | collector.environment, interrupts) as stage:
        stage.start_server()
        stage.start("jq-worker", "--handlers", "examples.trace.handlers").await_ready(interrupts)
        with Client(stage.address) as client:
            made = client.submit(JobSpec("default", b"world", type="greet"))
            job = client.wait(made.job_id, timeout_s=60)
        print(f"job {made.job_id} is {job.status} after {job.attempt} attempts", flush=True)
        for _ in range(_LOOKS):
            spans = collector.spans()
            if len(spans) >= sum(_EXPECTED.values()):
                return spans
            interrupts.pause(_LOOK_AGAIN_S)
    raise DemoError(f"only {len(spans)} spans have arrived")


def _is_whole(spans: list[Span]) -> bool:
    names = [span.name for span in spans]
    counts = {name: names.count(name) for name in _EXPECTED}
    return counts == _EXPECTED and len({span.trace_id for span in spans}) == 1


def main() -> int:
    """Run the example; return 0 only when all spans are in one trace."""
    interrupts = Interrupts()
    interrupts.listen()
    try:
        with Collector() as collector:
            spans = _run(collector, interrupts)
    except KeyboardInterrupt:
        return 130
    except (DemoError, JobQueueError) as error:
        print(f"trace: {error}", file=sys.stderr)
        return 1
    print(f"trace {spans[0].trace_id}\n")
    print("\n".join(tree(spans)))
    return 0 if _is_whole(spans) else 1


if __name__ == "__main__":
    sys.exit(main())
