"""Leases through a server: what a worker without a database uses.

Two connections a process: one for the stream of jobs, starts and reports; the keeper's. The server
sends jobs as there is room for them; a claim takes what has arrived and starts it.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Released
from jobqueue.domain.worker import WorkerFacts
from jobqueue.errors import JobQueueError
from jobqueue.lease.holder import Holder
from jobqueue.lease.hot import TRANSIENT, retried
from jobqueue.lease.keeper import Keeper
from jobqueue.lease.probes import handles_untyped
from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.settler import Ending, Written
from jobqueue.remote.intake import Intake
from jobqueue.remote.keeper_process import source_of
from jobqueue.remote.link import Link
from jobqueue.remote.messages import register_message, result_message, seconds
from jobqueue.transport import Route
from jobqueue.v1 import worker_service_pb2 as pb

KEEPER = "jobqueue.remote.keeper_process"
_REPORT_BYTES = 8 * 1024 * 1024
"""Reports of one call add up to about this at most: far below the longest message."""


class RemoteLeases(Holder):
    """The ``Leases`` of one worker process behind one server. Make it on the running event loop."""

    def __init__(self, route: Route, types: Sequence[str], *, stall_limit_s: float) -> None:
        """``types`` are those that have a handler here."""
        super().__init__()
        self._route = route
        self._types = frozenset(types)
        self._stall_limit_s = stall_limit_s
        self._link = Link(route)
        self._intake: Intake | None = None
        self._worker = 0
        self._arrivals: deque[LeasedJob] = deque()
        self._claims = asyncio.Lock()

    async def open(self, facts: WorkerFacts) -> None:
        """Register, start the keeper, open the stream. Raises Unavailable when that fails."""
        answer = await self._link.register(register_message(facts))
        settings = self._settings(answer)
        self._link.timeout_s = settings.statement_timeout_s
        # Well before the server's reaper would charge a retry for it.
        self.hold_limit_s = seconds(answer.assignment_timeout) / 2
        source, number = source_of(self._route), int(answer.session)
        keeper = Keeper(KEEPER, source, settings, facts, self, worker=number)
        self._worker = await self._keep(keeper, settings.lease_s)
        self._intake = Intake(self._link, self._worker, keeper.leases, self._arrived)
        await self._intake.start()

    async def claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        """Take up to ``n`` jobs of those that have arrived, started if asked for."""
        async with self._claims:
            self._hint.clear()
            jobs = list(self._arrived_first(n)) if self._claiming else []
            if not jobs or not running:
                return jobs
            return await self._errands.run(self._claim_started(jobs), self._hand_back_claimed)

    def stop_claiming(self) -> None:
        """Cut the stream; hand back what has arrived, and what was under way."""
        super().stop_claiming()
        self._errands.start(self._end_intake())

    async def close(self) -> None:
        """Record what is on its way, end the keeper, deregister, close the connections."""
        if self._kept is None:
            await self._link.close()
            return
        if self._intake is not None:
            await self._intake.stop(0.0)
        await self._finish()
        with contextlib.suppress(JobQueueError):  # shown as OFFLINE, and pruned in time
            await self._link.deregister(pb.DeregisterRequest(session=str(self._keeper.number)))
        await self._link.close()

    def disowned(self, leases: Sequence[Lease]) -> Sequence[Lease]:  # noqa: ARG002 - never asked
        """Return none: the server finds such leases when the stream is opened."""
        return ()

    def _settings(self, answer: pb.RegisterResponse) -> LeaseSettings:
        return LeaseSettings(
            lease_s=seconds(answer.lease_duration),
            renew_interval_s=seconds(answer.renew_interval),
            heartbeat_interval_s=seconds(answer.heartbeat_interval),
            stall_limit_s=self._stall_limit_s,
        )

    # Jobs.

    def _arrived(self, job: LeasedJob) -> None:
        # When it was claimed is not known here. A lease that is believed in for too long costs
        # nothing before the start, which proves it anew.
        self._keeper.hold([job], time.monotonic())
        self._arrivals.append(job)
        self._hint.set()

    def _arrived_first(self, n: int) -> Iterator[LeasedJob]:
        """Yield up to ``n`` jobs that are still held, in the order of their arrival."""
        while n > 0 and self._arrivals:
            job = self._arrivals.popleft()
            if self._keeper.job(job.lease) is not None:
                n -= 1
                yield job

    async def _claim_started(self, jobs: Sequence[LeasedJob]) -> list[LeasedJob]:
        startable = [job for job in jobs if self._handles(job)]
        try:
            started = await self._start([job.lease for job in startable]) if startable else ()
        except BaseException:
            self._put_back(jobs)
            raise
        unhandled = [job for job in jobs if not self._handles(job)]
        return [*(replace(j, running=True) for j in startable if j.lease in started), *unhandled]

    def _put_back(self, jobs: Sequence[LeasedJob]) -> None:
        """Leave jobs that may have been started to the next claim; hand them back if none comes."""
        if self._claiming:
            # To start them again is safe.
            self._arrivals.extendleft(reversed(jobs))
        else:
            self._hand_back(jobs, Released("never started"))

    def _handles(self, job: LeasedJob) -> bool:
        return job.type in self._types if job.type else handles_untyped(self._types, job.queue)

    def _hand_back_claimed(self, jobs: Sequence[LeasedJob]) -> None:
        self._hand_back(jobs, Released("the worker stopped while it claimed"))

    async def _end_intake(self) -> None:
        if self._intake is not None:
            await self._intake.stop(0.0)
        self._hand_back(list(self._arrived_first(len(self._arrivals))), Released("never started"))
        with contextlib.suppress(*TRANSIENT):  # they run out, at no cost
            await self._release_strays()

    async def _release_strays(self) -> None:
        held = map(str, self._keeper.leases())
        request = pb.ReleaseJobsRequest(session=str(self._worker), strays=True, held=held)
        await self._link.release_jobs(request)

    # Starts.

    async def _start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        # Safe to repeat: a lease that runs already answers that it is started.
        answer, sent_at = await retried(lambda: self._start_once(leases))
        states = {Lease.parse(start.lease): start.state for start in answer.starts}
        started = [k for k, s in states.items() if s == pb.StartJobsResponse.STATE_STARTED]
        held = [job for lease in started if (job := self._keeper.job(lease)) is not None]
        self._keeper.hold(held, sent_at)
        for lease, state in states.items():
            if state == pb.StartJobsResponse.STATE_EXPIRED:
                self._keeper.drop(lease)
            elif state == pb.StartJobsResponse.STATE_LOST:
                self._forget_unstarted(lease)
        return frozenset(job.lease for job in held)

    async def _start_once(self, leases: Sequence[Lease]) -> tuple[pb.StartJobsResponse, float]:
        sent_at = time.monotonic()
        request = pb.StartJobsRequest(session=str(self._worker), leases=map(str, leases))
        return await self._link.start_jobs(request), sent_at

    # Settles.

    async def _flush(self, batch: Sequence[Ending]) -> AsyncIterator[Written]:
        rest = iter(batch)
        for results in _calls([result_message(e.lease, e.outcome) for e in batch]):
            request = pb.ReportResultsRequest(session=str(self._worker), results=results)
            answer = await self._link.report_results(request)
            settled = {
                Lease.parse(report.lease)
                for report in answer.reports
                if report.state == pb.ReportResultsResponse.STATE_SETTLED
            }
            yield list(islice(rest, len(results))), settled

    def _jobs_ended(self, queues: AbstractSet[str]) -> None:
        """The server, which counts the room, knows it already."""


def _calls(results: Sequence[pb.Result]) -> Iterator[list[pb.Result]]:
    """Cut reports into calls of a bounded size."""
    call: list[pb.Result] = []
    size = 0
    for result in results:
        if call and size + result.ByteSize() > _REPORT_BYTES:
            yield call
            call, size = [], 0
        call.append(result)
        size += result.ByteSize()
    if call:
        yield call
