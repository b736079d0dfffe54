"""The span of a submission, and the context that its jobs carry from then on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer

from jobqueue.domain.job import JobSpec, Submitted
from jobqueue.submission.submitter import Submits
from jobqueue.telemetry.attributes import BATCH_COUNT, EXISTING, MESSAGE_ID, note_error, operation
from jobqueue.telemetry.carriers import carrier_of, context_of, span_context_in

SUBMIT = "submit_job"


class TracedSubmitter:
    """Takes jobs in as the one behind it does, under a span.

    The span is a child of the current one, that is of the caller, else of the context that the
    job brings along, else a root. A job without a context gets the span's; those of a batch share
    one span and therefore one trace.
    """

    def __init__(self, submitter: Submits, tracer: Tracer) -> None:
        self._submitter = submitter
        self._tracer = tracer

    async def submit(self, spec: JobSpec, request_id: str = "") -> Submitted:
        """Store one job. Raises as the one behind it."""
        with self._span([spec]) as span:
            made = await self._submitter.submit(_carrying(spec, carrier_of(span)), request_id)
            span.set_attribute(MESSAGE_ID, str(made.job_id))
            span.set_attribute(EXISTING, made.existing)
            return made

    async def submit_many(self, specs: Sequence[JobSpec], request_id: str = "") -> list[Submitted]:
        """Store all jobs or none. Raises as the one behind it."""
        with self._span(specs) as span:
            span.set_attribute(BATCH_COUNT, len(specs))
            carrier = carrier_of(span)
            carrying = [_carrying(spec, carrier) for spec in specs]
            return await self._submitter.submit_many(carrying, request_id)

    @contextmanager
    def _span(self, specs: Sequence[JobSpec]) -> Iterator[Span]:
        queues = {spec.queue for spec in specs}
        queue = queues.pop() if len(queues) == 1 else None
        parent, links = _parent(specs)
        with self._tracer.start_as_current_span(
            SUBMIT,
            context=parent,
            kind=SpanKind.PRODUCER,
            attributes=operation("submit", "send", queue),
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                note_error(span, error)
                raise


def _carrying(spec: JobSpec, carrier: dict[str, str]) -> JobSpec:
    return spec if spec.trace_context else replace(spec, trace_context=carrier)


def _parent(specs: Sequence[JobSpec]) -> tuple[Context, list[Link]]:
    """Return under what a submission happens, and the other context of a job that has two."""
    brought = context_of(specs[0].trace_context) if len(specs) == 1 else Context()
    theirs = span_context_in(brought)
    if span_context_in() is None:
        return brought, []
    return current.get_current(), [Link(theirs)] if theirs else []
