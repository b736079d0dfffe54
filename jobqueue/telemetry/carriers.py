"""Trace contexts as they travel: in a job's row, in the metadata of a call, to a child (W3C)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from jobqueue.domain.limits import TRACE_BYTES

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]

_W3C = TraceContextTextMapPropagator()
_STATE = "tracestate"


def context_of(carrier: Mapping[str, str]) -> Context:
    """Return the context in a carrier; an empty one when it holds none that is valid."""
    return _W3C.extract(carrier, Context())


def carrier_of(span: trace.Span) -> dict[str, str]:
    """Return a span as a carrier, with as much of its caller's tracestate as a job may have."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    if kept := _within(carrier.pop(_STATE, ""), TRACE_BYTES):
        carrier[_STATE] = kept
    return carrier


def _within(state: str, most: int) -> str:
    """Return a tracestate without its last members, which are its oldest, beyond so many bytes."""
    while len(state.encode()) > most:
        state = state.rpartition(",")[0]
    return state


def span_context_in(context: Context | None = None) -> trace.SpanContext | None:
    """Return the span of a context, by default of the current one; None when there is none."""
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None


def log_names() -> Mapping[str, object]:
    """Return trace and span for a line that is written here and now."""
    found = span_context_in()
    if found is None:
        return {}
    return {
        "trace_id": trace.format_trace_id(found.trace_id),
        "span_id": trace.format_span_id(found.span_id),
    }


@contextmanager
def continued(carrier: Mapping[str, str]) -> Iterator[None]:
    """Run in the trace of a carrier."""
    token = attach(context_of(carrier))
    try:
        yield
    finally:
        detach(token)


@contextmanager
def called(metadata: Metadata) -> Iterator[None]:
    """Run in the trace of whoever made a call."""
    with continued({key: value for key, value in metadata if isinstance(value, str)}):
        yield
