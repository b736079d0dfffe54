"""The story: start everything, submit, kill a worker half-way, wait for the end, check."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from uuid import UUID

from examples.demo.claims import file_claims, rerun_claims, trouble_claims
from examples.demo.crash import crash
from examples.demo.files import has_sha256sum, hash_command, list_files
from examples.demo.jobs import COMMAND, FILES, TROUBLE, Trouble, submit_files, submit_trouble
from examples.demo.programs import DemoError, Interrupts, Program, Stage
from examples.demo.progress import progress
from jobqueue.client import Client, JobStatus
from jobqueue.errors import JobQueueError

_SETTINGS = {
    # A killed worker's jobs come back after this, so that the demo is short.
    "JQ_LEASE_DURATION_S": "5",
    "JQ_LEASE_RENEW_INTERVAL_S": "1",
    "JQ_REAPER_INTERVAL_MS": "500",
    "JQ_WORKER_SHUTDOWN_GRACE_PERIOD_S": "2",
    "JQ_WORKER_KILL_GRACE_S": "1",
    "JQ_WORKER_COMMANDS": json.dumps({COMMAND: hash_command()}),
    # Any free port.
    "JQ_GRPC_PORT": "0",
    "JQ_HEALTH_PORT": "0",
    "JQ_METRICS_PORT": "0",
}
_WORKERS = ("worker-1", "worker-2")
_LOOK_AGAIN_S = 0.1
_PATIENCE_S = 110.0


class Demo:
    """One run, on a stage whose server serves already."""

    def __init__(self, stage: Stage, client: Client, interrupts: Interrupts) -> None:
        self._stage = stage
        self._client = client
        self._interrupts = interrupts

    def run(self) -> bool:
        """Tell the story; return True when every claim is true."""
        files = list_files()
        say(f"{len(files)} files of the standard library, {_megabytes(files):.0f} MB")
        trouble = submit_trouble(self._client)
        paths = submit_files(self._client, files)
        way = "sha256sum" if has_sha256sum() else "a Python one-liner"
        say(f"one job each is submitted, every fourth to be hashed by the command {way}")
        say(f"{len(trouble.always)} jobs that always fail, {len(trouble.once)} that fail once")
        held = self._work(self._start_workers(), len(paths) + len(trouble.always | trouble.once))
        true = self._check(paths, trouble, held)
        self._show("queue", "stats")
        self._show("job", "logs", str(min(held)))
        return true

    def _start_workers(self) -> Sequence[Program]:
        queues = ("--queues", f"{FILES},{TROUBLE}", "--handlers", "examples.demo.handlers")
        workers = [
            self._stage.start("jq-worker", "--worker-id", name, *queues) for name in _WORKERS
        ]
        for name, worker in zip(_WORKERS, workers, strict=True):
            worker.await_ready(self._interrupts)
            say(f"jq-worker {name} runs as process {worker.pid}")
        return workers

    def _work(self, workers: Sequence[Program], total: int) -> frozenset[UUID]:
        """Watch until all jobs have ended; kill the first worker half-way, return what it held."""
        started = time.monotonic()
        held: frozenset[UUID] = frozenset()
        with progress("jobs ended", total) as show:
            while (ended := self._ended()) < total:
                show(ended)
                if not held and ended >= total / 2:
                    held = crash(self._client, FILES, workers[0], _WORKERS[0], self._interrupts)
                    self._tell_of_crash(workers[0], held, ended)
                if time.monotonic() > started + _PATIENCE_S:
                    raise DemoError(f"only {ended} of {total} jobs ended in {_PATIENCE_S:.0f} s")
                self._interrupts.pause(_LOOK_AGAIN_S)
            show(total)
        if not held:
            raise DemoError("the jobs ended before a worker could be killed")
        say(f"all jobs have ended after {time.monotonic() - started:.1f} s")
        return held

    def _ended(self) -> int:
        depths = [stats.depth for stats in self._client.queue_stats()]
        return sum(d.get(JobStatus.DONE, 0) + d.get(JobStatus.DEAD_LETTERED, 0) for d in depths)

    def _tell_of_crash(self, worker: Program, held: frozenset[UUID], ended: int) -> None:
        say(
            f"kill -9 {worker.pid} after {ended} jobs: {_WORKERS[0]} ended with {worker.exit_code}"
            f" (minus the signal) while it ran {len(held)} jobs"
        )

    def _check(self, paths: Mapping[UUID, Path], trouble: Trouble, held: frozenset[UUID]) -> bool:
        print()
        true = True
        for claim in chain(
            file_claims(self._client, FILES, paths),
            rerun_claims(self._client, FILES, held),
            trouble_claims(self._client, trouble),
        ):
            say(f"  {'yes' if claim.true else 'NO '}  {claim.text}: {claim.seen}")
            true = true and claim.true
            self._interrupts.pause(0)
        return true

    def _show(self, *arguments: str) -> None:
        say(f"\n$ jq-ctl {' '.join(arguments)}\n{self._stage.ctl(*arguments).rstrip()}")


def _megabytes(files: Sequence[Path]) -> float:
    return sum(path.stat().st_size for path in files) / 1e6


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def main() -> int:
    """Run the demo; return 0 only when every claim is true."""
    interrupts = Interrupts()
    interrupts.listen()
    try:
        with Stage(_SETTINGS, interrupts) as stage:
            stage.start_server()
            say(f"jq-server, with a PostgreSQL of its own, serves on {stage.address}")
            with Client(stage.address) as client:
                true = Demo(stage, client, interrupts).run()
    except KeyboardInterrupt:
        say("\ninterrupted; everything is stopped")
        return 130
    except (DemoError, JobQueueError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    say("\nevery claim holds" if true else "\nNOT every claim holds")
    return 0 if true else 1


if __name__ == "__main__":
    sys.exit(main())
