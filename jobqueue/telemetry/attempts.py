"""The span of an attempt: current in the handler, and carried to whatever it runs in."""

from collections.abc import Mapping
from contextvars import Token
from typing import Self

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, Span, SpanKind, Tracer, set_span_in_context

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Outcome
from jobqueue.telemetry.attributes import job_attributes, note_outcome
from jobqueue.telemetry.carriers import carrier_of, context_of, span_context_in

EXECUTE = "execute_job"


class TracedAttempts:
    """Makes a span for each attempt; what the worker room calls an ``Around``."""

    def __init__(self, tracer: Tracer, worker: str, *, linked: bool) -> None:
        """``linked``: each attempt begins a trace of its own, with a link to the submission."""
        self._tracer = tracer
        self._worker = worker
        self._linked = linked

    def __call__(self, job: LeasedJob) -> "TracedAttempt":
        """Begin the span of an attempt."""
        stored = context_of(job.trace_context)
        submitted = span_context_in(stored)
        span = self._tracer.start_span(
            EXECUTE,
            context=Context() if self._linked else stored,
            kind=SpanKind.CONSUMER,
            attributes=job_attributes("execute", "process", job, self._worker),
            links=[Link(submitted)] if self._linked and submitted else [],
        )
        return TracedAttempt(span)


class TracedAttempt:
    """One attempt. Its span lasts until the handler is over, its context until that is reported."""

    def __init__(self, span: Span) -> None:
        self.carrier: Mapping[str, str] = carrier_of(span)
        self._span = span
        self._token: Token[Context] | None = None

    def __enter__(self) -> Self:
        """Make the span current."""
        self._token = attach(set_span_in_context(self._span))
        return self

    def __exit__(self, *_: object) -> None:
        """Go back to what was current before."""
        assert self._token is not None
        detach(self._token)

    def ended(self, outcome: Outcome | None) -> None:
        """End the span, saying how."""
        note_outcome(self._span, outcome)
        self._span.end()
