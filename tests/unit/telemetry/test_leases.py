from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from jobqueue.domain.outcome import Completed
from jobqueue.domain.worker import WorkerFacts
from jobqueue.errors import Unavailable
from jobqueue.telemetry.carriers import continued
from jobqueue.telemetry.leases import TracedLeases
from tests.support.recording_leases import RecordingLeases, leased
from tests.support.settling import settled
from tests.unit.telemetry.conftest import Spans
from tests.unit.telemetry.test_carriers import PARENT, SPAN, TRACE

FACTS = WorkerFacts("w1", "host", 1, ("default",), ("echo",), 4, "direct", "1.0")
ATTEMPT = {"traceparent": f"00-{TRACE}-{'e' * 16}-01"}


def parent_of(span: ReadableSpan) -> str:
    return f"{span.parent.span_id:016x}" if span.parent else ""


async def opened(spans: Spans, behind: RecordingLeases) -> TracedLeases:
    leases = TracedLeases(behind, spans.tracer)
    await leases.open(FACTS)
    return leases


async def test_each_job_of_a_claim_has_a_span_in_its_own_trace(spans: Spans) -> None:
    jobs = [replace(leased(), trace_context=PARENT), leased()]
    leases = await opened(spans, RecordingLeases(jobs))
    known, new = await leases.claim(2, running=True)
    first, second = spans.ended()
    assert {span.name for span in (first, second)} == {"acquire_lease"}
    assert {span.kind for span in (first, second)} == {SpanKind.CLIENT}
    assert (parent_of(first), known) == (SPAN, jobs[0])
    assert parent_of(second) == ""
    assert f"{second.context.trace_id:032x}" in new.trace_context["traceparent"]
    said = dict(first.attributes or {})
    assert (said["messaging.batch.message_count"], said["messaging.client.id"]) == (2, "w1")


async def test_a_claim_that_brings_nothing_has_no_span(spans: Spans) -> None:
    leases = await opened(spans, RecordingLeases())
    assert await leases.claim(4, running=True) == []
    assert spans.ended() == []


async def test_a_settlement_belongs_to_the_attempt_else_to_the_job(spans: Spans) -> None:
    leases = await opened(spans, RecordingLeases())
    with continued(ATTEMPT):
        assert await settled(leases, leased(), Completed())
    await settled(leases, replace(leased(), trace_context=PARENT), Completed())
    during, after = spans.ended()
    assert (during.name, during.kind, parent_of(during)) == ("ack_job", SpanKind.CLIENT, "e" * 16)
    assert parent_of(after) == SPAN


async def test_a_settlement_that_came_too_late_is_an_error_of_its_span(spans: Spans) -> None:
    job, behind = leased(), RecordingLeases()
    behind.gone.add(job.lease)
    assert not await settled(await opened(spans, behind), job, Completed())
    span = spans.only()
    assert (span.attributes or {})["error.type"] == "LEASE_LOST"
    assert span.status.status_code is StatusCode.ERROR


async def test_an_error_passes_through_and_is_named_by_its_code(spans: Spans) -> None:
    behind = RecordingLeases()
    leases = await opened(spans, behind)
    behind.outage = True
    with pytest.raises(Unavailable):
        await settled(leases, leased(), Completed())
    assert (spans.only().attributes or {})["error.type"] == "UNAVAILABLE"
