import pytest

from jobqueue.worker.around import trace_names, trace_variables

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def test_only_the_trace_context_becomes_variables() -> None:
    carrier = {"traceparent": PARENT, "tracestate": "v=1", "baggage": "user=1", "PATH": "/evil"}
    assert trace_variables(carrier) == {"TRACEPARENT": PARENT, "TRACESTATE": "v=1"}
    assert trace_variables({}) == {}


@pytest.mark.parametrize("parent", ["", "nonsense", f"{PARENT}\n", PARENT.upper()])
def test_a_context_that_is_none_names_nothing(parent: str) -> None:
    assert trace_names({"traceparent": parent}) == {}


def test_lines_name_trace_and_span() -> None:
    assert trace_names({"traceparent": PARENT}) == {"trace_id": "a" * 32, "span_id": "b" * 16}
