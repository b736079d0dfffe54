from uuid import uuid4

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from jobqueue.domain.columns import JobColumns, columns_of
from jobqueue.domain.job import JobSpec, Submitted
from jobqueue.errors import NotFound
from jobqueue.telemetry.carriers import continued
from jobqueue.telemetry.submits import TracedSubmitter
from tests.unit.telemetry.conftest import Spans
from tests.unit.telemetry.test_carriers import PARENT, SPAN, TRACE

OTHER = {"traceparent": f"00-{'c' * 32}-{'d' * 16}-01"}


class Taking:
    """Takes jobs in and shows what came; refuses the queue that is not there."""

    def __init__(self) -> None:
        self.came: list[JobSpec] = []

    async def submit(self, spec: JobSpec, request_id: str = "") -> Submitted:
        return (await self.submit_columns(columns_of([spec]), request_id))[0]

    async def submit_columns(self, columns: JobColumns, request_id: str = "") -> list[Submitted]:
        if "missing" in columns.queue:
            raise NotFound("queue", "s3cret")
        self.came += columns.items()
        return [Submitted(uuid4(), existing=bool(request_id)) for _ in range(columns.size)]


@pytest.fixture
def behind() -> Taking:
    return Taking()


@pytest.fixture
def submitter(behind: Taking, spans: Spans) -> TracedSubmitter:
    return TracedSubmitter(behind, spans.tracer)


async def test_a_job_without_a_context_carries_that_of_its_submission(
    submitter: TracedSubmitter, behind: Taking, spans: Spans
) -> None:
    made = await submitter.submit(JobSpec("mail", b"x"), "again")
    span = spans.only()
    assert (span.name, span.kind, span.parent) == ("submit_job", SpanKind.PRODUCER, None)
    assert dict(span.attributes or {}) == {
        "messaging.system": "jobqueue",
        "messaging.operation.name": "submit",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(made.job_id),
        "messaging.jobqueue.existing": True,
    }
    assert f"{span.context.span_id:016x}" in behind.came[0].trace_context["traceparent"]


async def test_the_context_a_job_brings_is_kept_and_continued(
    submitter: TracedSubmitter, behind: Taking, spans: Spans
) -> None:
    await submitter.submit(JobSpec("mail", trace_context=PARENT))
    span = spans.only()
    assert span.parent is not None
    assert (span.context.trace_id, span.parent.span_id) == (int(TRACE, 16), int(SPAN, 16))
    assert (behind.came[0].trace_context, span.links) == (PARENT, ())


async def test_the_caller_is_the_parent_and_the_context_of_the_job_a_link(
    submitter: TracedSubmitter, behind: Taking, spans: Spans
) -> None:
    with continued(PARENT):
        await submitter.submit(JobSpec("mail", trace_context=OTHER))
    span = spans.only()
    assert span.context.trace_id == int(TRACE, 16)
    assert [link.context.trace_id for link in span.links] == [int("c" * 32, 16)]
    assert behind.came[0].trace_context == OTHER


async def test_the_jobs_of_a_batch_share_one_span(
    submitter: TracedSubmitter, behind: Taking, spans: Spans
) -> None:
    specs = [JobSpec("mail"), JobSpec("far"), JobSpec("mail", trace_context=OTHER)]
    await submitter.submit_columns(columns_of(specs))
    span = spans.only()
    first, second, third = (spec.trace_context for spec in behind.came)
    assert first == second != third == OTHER
    assert (span.attributes or {})["messaging.batch.message_count"] == 3
    assert "messaging.destination.name" not in (span.attributes or {})


async def test_a_refusal_is_an_error_of_the_span_by_its_code_alone(
    submitter: TracedSubmitter, spans: Spans
) -> None:
    with pytest.raises(NotFound):
        await submitter.submit(JobSpec("missing"))
    span = spans.only()
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "NOT_FOUND"
    assert "s3cret" not in span.to_json()


async def test_a_name_of_megabytes_is_cut(submitter: TracedSubmitter, spans: Spans) -> None:
    await submitter.submit(JobSpec("q" * 1_000_000))
    assert (spans.only().attributes or {})["messaging.destination.name"] == "q" * 128
