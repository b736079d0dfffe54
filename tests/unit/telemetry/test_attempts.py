from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from jobqueue.domain.outcome import (
    Cancelled,
    Completed,
    Failed,
    Outcome,
    Postponed,
    Refused,
    Released,
)
from jobqueue.domain.state import Reason
from jobqueue.telemetry.attempts import TracedAttempts
from jobqueue.telemetry.carriers import log_names
from tests.support.recording_leases import leased
from tests.unit.telemetry.conftest import Spans
from tests.unit.telemetry.test_carriers import PARENT, SPAN, TRACE

JOB = replace(leased("resize", b"s3cret", queue="mail"), trace_context=PARENT)


def followed(spans: Spans, outcome: Outcome | None, *, linked: bool = False) -> ReadableSpan:
    around = TracedAttempts(spans.tracer, "w1", linked=linked)
    with around(JOB) as trail:
        assert str(log_names()["span_id"]) in trail.carrier["traceparent"]
        trail.ended(outcome)
    assert log_names() == {}
    return spans.only()


def test_an_attempt_is_a_child_of_the_submission(spans: Spans) -> None:
    span = followed(spans, Completed(b"s3cret"))
    assert (span.name, span.kind) == ("execute_job", SpanKind.CONSUMER)
    assert span.parent is not None
    assert (span.context.trace_id, span.parent.span_id) == (int(TRACE, 16), int(SPAN, 16))
    assert dict(span.attributes or {}) == {
        "messaging.system": "jobqueue",
        "messaging.operation.name": "execute",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(JOB.job_id),
        "messaging.client.id": "w1",
        "messaging.message.body.size": 6,
        "messaging.jobqueue.attempt": 1,
        "messaging.jobqueue.priority": 0,
        "messaging.jobqueue.type": "resize",
        "messaging.jobqueue.outcome": "done",
    }


def test_a_linked_attempt_has_a_trace_of_its_own(spans: Spans) -> None:
    span = followed(spans, Completed(), linked=True)
    assert span.parent is None
    assert span.context.trace_id != int(TRACE, 16)
    assert [link.context.span_id for link in span.links] == [int(SPAN, 16)]


@pytest.mark.parametrize(
    ("outcome", "error", "word"),
    [
        (Failed("ValueError: s3cret"), str(Reason.HANDLER_FAILED), "failed"),
        (Failed("too slow", Reason.TIMED_OUT), str(Reason.TIMED_OUT), "failed"),
        (Refused("s3cret"), "REFUSED", "refused"),
        (Cancelled("s3cret"), None, "cancelled"),
        (Postponed(3.0, "s3cret"), None, "postponed"),
        (Released("s3cret"), None, "released"),
        (None, "LEASE_LOST", None),
    ],
)
def test_the_span_says_how_an_attempt_ended_and_not_in_whose_words(
    spans: Spans, outcome: Outcome | None, error: str | None, word: str | None
) -> None:
    span = followed(spans, outcome)
    said = dict(span.attributes or {})
    assert (said.get("error.type"), said.get("messaging.jobqueue.outcome")) == (error, word)
    assert (span.status.status_code is StatusCode.ERROR) == (error is not None)
    assert "s3cret" not in span.to_json()
