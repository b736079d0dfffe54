"""The span of a submission, and the context that its jobs carry from then on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer

from jobqueue.domain.columns import JobColumns
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
        with self._span({spec.queue}, (spec.trace_context,)) as span:
            made = await self._submitter.submit(_carrying(spec, carrier_of(span)), request_id)
            span.set_attribute(MESSAGE_ID, str(made.job_id))
            span.set_attribute(EXISTING, made.existing)
            return made

    async def submit_columns(self, columns: JobColumns, request_id: str = "") -> list[Submitted]:
        """Store all jobs or none. Raises as the one behind it."""
        brought = columns.trace_context
        with self._span(set(columns.queue), brought if columns.size == 1 else ()) as span:
            span.set_attribute(BATCH_COUNT, columns.size)
            carrier = carrier_of(span)
            carried = [theirs or carrier for theirs in brought or ({},)]
            return await self._submitter.submit_columns(
                replace(columns, trace_context=carried), request_id
            )

    @contextmanager
    def _span(self, queues: set[str], brought: Sequence[Mapping[str, str]]) -> Iterator[Span]:
        """``brought``: the context of the job, if there is only one job."""
        queue = next(iter(queues)) if len(queues) == 1 else None
        parent, links = _parent(brought)
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


def _parent(brought: Sequence[Mapping[str, str]]) -> tuple[Context, list[Link]]:
    """Return under what a submission happens, and the other context of a job that has two."""
    brought_along = context_of(brought[0]) if brought else Context()
    theirs = span_context_in(brought_along)
    if span_context_in() is None:
        return brought_along, []
    return current.get_current(), [Link(theirs)] if theirs else []
