import pytest
from opentelemetry.trace import INVALID_SPAN

from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import Limits, spec_faults
from jobqueue.telemetry.carriers import (
    called,
    carrier_of,
    context_of,
    continued,
    log_names,
    span_context_in,
)
from tests.unit.telemetry.conftest import Spans

TRACE, SPAN = "a" * 32, "b" * 16
PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@pytest.mark.parametrize(
    "carrier",
    [
        {},
        {"traceparent": ""},
        {"traceparent": "nonsense"},
        {"traceparent": f"00-{'0' * 32}-{SPAN}-01"},
        {"traceparent": f"00-{TRACE}-{SPAN}-01-more"},
        {"traceparent": "\x00\ud800"},
    ],
)
def test_a_carrier_without_a_valid_context_is_an_empty_one(carrier: dict[str, str]) -> None:
    assert span_context_in(context_of(carrier)) is None


def test_a_span_travels_in_a_carrier(spans: Spans) -> None:
    sent = spans.tracer.start_span("x")
    arrived = span_context_in(context_of(carrier_of(sent)))
    assert arrived is not None
    assert (arrived.trace_id, arrived.span_id) == (
        sent.get_span_context().trace_id,
        sent.get_span_context().span_id,
    )
    assert carrier_of(INVALID_SPAN) == {}


@pytest.mark.parametrize(
    ("members", "kept"),
    [
        (["a=" + "1" * 200, "b=" + "2" * 200], 2),
        (["a=" + "1" * 200, "b=" + "2" * 200, "c=" + "3" * 200], 2),
        ([f"k{n}=" + "v" * 250 for n in range(32)], 2),
    ],
)
def test_of_a_long_tracestate_the_first_members_travel(
    members: list[str], kept: int, spans: Spans
) -> None:
    caller = context_of({**PARENT, "tracestate": ",".join(members)})
    carrier = carrier_of(spans.tracer.start_span("x", caller))
    assert carrier["tracestate"] == ",".join(members[:kept])
    assert list(spec_faults(JobSpec("q", trace_context=carrier), Limits())) == []


def test_lines_name_the_trace_only_inside_of_it() -> None:
    assert log_names() == {}
    with continued(PARENT):
        assert log_names() == {"trace_id": TRACE, "span_id": SPAN}
        with continued({}):
            assert log_names() == {}
    assert log_names() == {}


def test_a_call_continues_the_trace_in_its_metadata() -> None:
    with called((*PARENT.items(), ("other-bin", b"\xff"))):
        assert log_names() == {"trace_id": TRACE, "span_id": SPAN}
    with called(()):
        assert log_names() == {}
