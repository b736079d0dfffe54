"""The spans of claims and settlements, around the leases of any worker, direct or remote."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Tracer

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Outcome
from jobqueue.domain.worker import WorkerFacts
from jobqueue.lease.interface import Answered, Leases, News
from jobqueue.telemetry.attributes import (
    BATCH_COUNT,
    OUTCOME,
    fail,
    job_attributes,
    note_error,
    outcome_word,
)
from jobqueue.telemetry.carriers import carrier_of, context_of, span_context_in

ACQUIRE, ACK = "acquire_lease", "ack_job"


class TracedLeases:
    """Leases as those behind it. Each job that is claimed or settled has a span in its trace.

    A claim that brings nothing has none: an idle worker asks for ever.
    """

    def __init__(self, leases: Leases, tracer: Tracer) -> None:
        self._leases = leases
        self._tracer = tracer
        self._worker = ""

    @property
    def hold_limit_s(self) -> float:
        """How long an unstarted job may be kept."""
        return self._leases.hold_limit_s

    async def open(self, facts: WorkerFacts) -> None:
        """Register the worker, whose id the spans carry."""
        self._worker = facts.worker_id
        await self._leases.open(facts)

    async def claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        """Take up to ``n`` jobs; one that has no trace yet begins one here."""
        begun = time.time_ns()
        jobs = await self._leases.claim(n, running=running)
        return [self._acquired(job, begun, len(jobs)) for job in jobs]

    async def start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        """Move ASSIGNED jobs to RUNNING."""
        return await self._leases.start(leases)

    def settle(self, job: LeasedJob, outcome: Outcome, answered: Answered) -> None:
        """End a lease with an outcome, as part of the attempt that led to it."""
        span = self._tracer.start_span(
            ACK,
            context=_attempt_of(job),
            kind=SpanKind.CLIENT,
            attributes=job_attributes("ack", "settle", job, self._worker)
            | {OUTCOME: outcome_word(outcome)},
        )
        self._leases.settle(job, outcome, partial(_acknowledged, span, answered))

    def set_deadline(self, lease: Lease, seconds: float) -> None:
        """Renew this lease for ``seconds`` from now at most."""
        self._leases.set_deadline(lease, seconds)

    def on_news(self, callback: Callable[[News], None]) -> None:
        """Call ``callback`` with everything the worker must hear."""
        self._leases.on_news(callback)

    async def wait_for_work(self, timeout_s: float) -> bool:
        """Wait for a hint that there may be work."""
        return await self._leases.wait_for_work(timeout_s)

    def stop_claiming(self) -> None:
        """There will be no claim any more."""
        self._leases.stop_claiming()

    async def set_draining(self) -> None:
        """Show the worker as DRAINING."""
        await self._leases.set_draining()

    def beat(self) -> None:
        """Say that the worker's loop turned."""
        self._leases.beat()

    async def close(self) -> None:
        """Stop renewing and deregister."""
        await self._leases.close()

    def _acquired(self, job: LeasedJob, begun: int, count: int) -> LeasedJob:
        span = self._tracer.start_span(
            ACQUIRE,
            context=context_of(job.trace_context),
            kind=SpanKind.CLIENT,
            attributes=job_attributes("claim", "receive", job, self._worker) | {BATCH_COUNT: count},
            start_time=begun,
        )
        span.end()
        if span_context_in(context_of(job.trace_context)):
            return job
        return replace(job, trace_context={**job.trace_context, **carrier_of(span)})


def _acknowledged(
    span: Span,
    answered: Answered,
    jobs: Sequence[LeasedJob],
    held: bool,  # noqa: FBT001 - as ``Answered``
    error: Exception | None,
) -> None:
    if error is not None:
        note_error(span, error)
    elif not held:
        fail(span, "LEASE_LOST")
    span.end()
    answered(jobs, held, error)


def _attempt_of(job: LeasedJob) -> Context:
    """Return the context of the attempt that is under way, else the job's own."""
    return current.get_current() if span_context_in() else context_of(job.trace_context)
