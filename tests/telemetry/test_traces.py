"""One trace per job across real programs (R-7.3)."""

import json
import signal
import socket
from collections.abc import Sequence

import grpc
import pytest

from examples.trace.collector import Collector, Span
from jobqueue.client import Client, Job, JobSpec, JobStatus
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as jobs_pb
from jobqueue.v1 import job_service_pb2_grpc as jobs_grpc
from tests.support.probes import probe
from tests.support.programs import Program, ServerProgram
from tests.support.waiting import eventually_sync
from tests.telemetry.conftest import Programs, Traced

CALLER = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
OWN = "00-" + "c" * 32 + "-" + "d" * 16 + "-01"
OURS = ("submit_job", "acquire_lease", "execute_job", "ack_job")
SHOW_VARIABLE = json.dumps({"command": "printf %s $TRACEPARENT"}).encode()


def arrived(collector: Collector, job: Job, count: int, trace: str = "") -> Sequence[Span]:
    """Wait for ``count`` spans that name a job, or are in a trace."""

    def look() -> Sequence[Span]:
        found = [span for span in collector.spans() if _is_about(span, job, trace)]
        return found if len(found) >= count else ()

    return eventually_sync(look, within_s=30, what=f"{count} spans")


def _is_about(span: Span, job: Job, trace: str) -> bool:
    named = span.attributes.get("messaging.message.id")
    return span.trace_id == trace or named == str(job.job_id)


def ended(server: ServerProgram, spec: JobSpec) -> Job:
    with Client(server.address) as client:
        return client.wait(client.submit(spec).job_id, timeout_s=60)


def named(spans: Sequence[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


def lines_of(program: Program, message: str, job: Job) -> list[dict[str, object]]:
    return [
        line
        for line in program.lines()
        if line["message"] == message and line.get("job_id") == str(job.job_id)
    ]


def traceparent(span: Span) -> str:
    """Return a context up to its flags, which say also how its id was drawn."""
    return f"00-{span.trace_id}-{span.span_id}-"


async def test_a_job_has_one_trace_from_its_caller_to_its_last_settlement(traced: Traced) -> None:
    with grpc.insecure_channel(traced.server.address) as channel:
        spec = job_pb2.JobSpec(queue="default", type="async", payload=b"once more")
        answer = jobs_grpc.JobServiceStub(channel).SubmitJob(
            jobs_pb.SubmitJobRequest(job=spec), metadata=(("traceparent", CALLER),)
        )
    with Client(traced.server.address) as client:
        job = client.wait(answer.job_id, timeout_s=60)
    spans = arrived(traced.collector, job, 9, trace="a" * 32)
    (submit,) = named(spans, "submit_job")
    assert (submit.service, submit.kind, submit.parent_id) == ("jq-server", "PRODUCER", "b" * 16)
    assert job.trace_context["traceparent"].startswith(traceparent(submit))
    assert {span.trace_id for span in spans} == {"a" * 32}
    claims, runs, acks = (named(spans, name) for name in OURS[1:])
    assert {span.service for span in (*claims, *runs, *acks)} == {"jq-worker"}
    assert {span.parent_id for span in (*claims, *runs)} == {submit.span_id}
    assert {span.kind for span in (*claims, *acks)} == {"CLIENT"}
    assert [ack.parent_id for ack in acks] == [run.span_id for run in runs]
    assert [(run.kind, run.failed) for run in runs] == [("CONSUMER", True), ("CONSUMER", False)]
    assert [run.attributes["messaging.jobqueue.attempt"] for run in runs] == [1, 2]
    assert "not yet" not in repr(spans), "the text of an error may quote a payload"


async def test_lines_inside_an_attempt_name_trace_span_job_queue_and_worker(
    traced: Traced,
) -> None:
    job = ended(traced.server, JobSpec("default", type="async"))
    trace = job.trace_context["traceparent"].split("-")[1]
    spans = arrived(traced.collector, job, 5, trace=trace)
    (run,), (step,) = named(spans, "execute_job"), named(spans, "my_step")
    assert step.parent_id == run.span_id
    (line,) = lines_of(traced.worker, "on the loop", job)
    assert line["service"] == "jq-worker"
    assert (line["trace_id"], line["span_id"], line["queue"]) == (trace, run.span_id, "default")
    assert line["worker_id"] == run.attributes["messaging.client.id"]
    assert lines_of(traced.worker, "in a step", job)[0]["span_id"] == step.span_id
    assert lines_of(traced.worker, "attempt ended", job)[0]["trace_id"] == trace


async def test_a_worker_behind_a_server_is_in_the_same_trace(traced: Traced) -> None:
    with Client(traced.server.address) as client:
        client.create_queue("far")
    traced.programs.remote(traced.collector.environment, traced.server, "--queues", "far")
    job = ended(traced.server, JobSpec("far", b"once more", "async", trace_context={}))
    (submit,) = named(arrived(traced.collector, job, 7), "submit_job")
    spans = arrived(traced.collector, job, 9, trace=submit.trace_id)
    claims, runs, acks = (named(spans, name) for name in OURS[1:])
    assert {span.trace_id for span in spans} == {submit.trace_id}
    assert {span.parent_id for span in (*claims, *runs)} == {submit.span_id}
    assert [ack.parent_id for ack in acks] == [run.span_id for run in runs]
    assert [run.attributes["messaging.jobqueue.attempt"] for run in runs] == [1, 2]


@pytest.mark.parametrize(
    ("type_", "message"), [("thread", "in a thread"), ("sync", "in a process")]
)
async def test_a_handler_elsewhere_runs_and_logs_in_the_trace(
    traced: Traced, type_: str, message: str
) -> None:
    job = ended(traced.server, JobSpec("default", type=type_))
    (run,) = named(arrived(traced.collector, job, 4), "execute_job")
    seen = json.loads(job.result or b"")
    assert (seen["trace_id"], seen["span_id"]) == (run.trace_id, run.span_id)
    (line,) = lines_of(traced.worker, message, job)
    assert (line["trace_id"], line["span_id"]) == (run.trace_id, run.span_id)
    assert (line["queue"], line["service"]) == ("default", "jq-worker")
    assert line["worker_id"] == run.attributes["messaging.client.id"]
    assert seen["variable"].startswith(traceparent(run) if type_ == "sync" else "")


async def test_probes_make_no_spans(traced: Traced) -> None:
    for program in (traced.server, traced.worker):
        assert probe(program, "/readyz")[0] == 200
    job = ended(traced.server, JobSpec("default", type="sync"))
    arrived(traced.collector, job, 4)  # spans are sent in order, so those of probes were before
    names = {span.name for span in traced.collector.spans()}
    assert names <= {*OURS, "my_step"}


async def test_a_command_gets_the_context_as_variable(traced: Traced) -> None:
    job = ended(traced.server, JobSpec("default", SHOW_VARIABLE, type="shell"))
    (run,) = named(arrived(traced.collector, job, 4), "execute_job")
    assert (job.result or b"").decode().startswith(traceparent(run))


async def test_attempts_may_have_a_trace_of_their_own_which_is_sent_at_the_latest_at_the_end(
    traced: Traced,
) -> None:
    with Client(traced.server.address) as client:
        client.create_queue("linked")
    late = traced.collector.environment | {"OTEL_BSP_SCHEDULE_DELAY": "600000"}
    worker = traced.programs.worker(late, "--queues", "linked", tracing_process_as="link")
    job = ended(traced.server, JobSpec("linked", type="async"))
    (submit,) = arrived(traced.collector, job, 1)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    spans = arrived(traced.collector, job, 4)
    (claim,), (run,), (ack,) = (named(spans, name) for name in OURS[1:])
    assert claim.parent_id == submit.span_id
    assert (run.parent_id, run.links) == ("", (submit.span_id,))
    assert run.trace_id != submit.trace_id
    assert (ack.parent_id, ack.trace_id) == (run.span_id, run.trace_id)


async def test_without_an_exporter_nothing_is_loaded_and_contexts_are_passed_on(
    programs: Programs,
) -> None:
    server = programs.server({})
    worker = programs.worker({}, "--handlers", "tests.support.handlers_of_traces_off")
    context = {"traceparent": OWN}
    command = ended(server, JobSpec("default", SHOW_VARIABLE, type="shell", trace_context=context))
    sync = ended(server, JobSpec("default", type="variable", trace_context=context))
    bare = ended(server, JobSpec("default", type="variable"))
    assert command.result == OWN.encode()
    assert sync.result == OWN.encode()
    assert (bare.result, bare.trace_context) == (b"", {})
    (line,), (other,) = (lines_of(worker, "in a process", job) for job in (sync, bare))
    assert line["trace_id"] == "c" * 32
    assert "trace_id" not in other
    loaded = ended(server, JobSpec("default", type="loaded"))
    assert loaded.result == b"[]"


async def test_a_collector_that_is_away_costs_neither_jobs_nor_a_flood_nor_the_end(
    programs: Programs,
) -> None:
    away = {
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_BSP_MAX_QUEUE_SIZE": "8",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8",
        "OTEL_BSP_EXPORT_TIMEOUT": "600000",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
    }
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refusing, mute = "http://127.0.0.1:9", f"http://127.0.0.1:{silent.getsockname()[1]}"
        server = programs.server(away | {"OTEL_EXPORTER_OTLP_ENDPOINT": mute})
        worker = programs.worker(away | {"OTEL_EXPORTER_OTLP_ENDPOINT": refusing})
        with Client(server.address) as client:
            jobs = [client.submit(JobSpec("default", type="async")) for _ in range(40)]
            done = [client.wait(job.job_id, timeout_s=60).status for job in jobs]
        assert done == [JobStatus.DONE] * 40
        eventually_sync(lambda: complaints(worker), within_s=30, what="a complaint")
        for program in (worker, server):
            program.send(signal.SIGTERM)
        assert (worker.ended(60), server.ended(60)) == (0, 0)
    assert len(complaints(worker)) < 20
    assert len(complaints(server)) < 20


def complaints(program: Program) -> list[dict[str, object]]:
    return [line for line in program.lines() if str(line["logger"]).startswith("opentelemetry")]
