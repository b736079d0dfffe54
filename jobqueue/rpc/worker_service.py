"""WorkerService: jobs for workers that have no database (R-1.3, R-4.2)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc

from jobqueue.domain.limits import Limits, check, worker_faults
from jobqueue.lease.desk import Desk
from jobqueue.rpc.convert_worker import (
    heartbeat_message,
    job_message,
    read_beat,
    read_facts,
    read_leases,
    read_progress,
    read_results,
    report_message,
    start_message,
)
from jobqueue.rpc.sessions import Sessions
from jobqueue.rpc.times import duration
from jobqueue.v1 import worker_service_pb2 as pb
from jobqueue.v1.worker_service_pb2_grpc import WorkerServiceServicer

# Unused by our methods: the guard is the only one that answers through it.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """What remote workers are told about time; all values are seconds."""

    lease_s: float
    renew_interval_s: float
    heartbeat_interval_s: float
    assignment_timeout_s: float


class WorkerService(WorkerServiceServicer):
    """Reads a request, asks the desk, writes the answer. Errors pass to the guard."""

    def __init__(self, desk: Desk, sessions: Sessions, times: WorkerTimes, limits: Limits) -> None:
        self._desk = desk
        self._sessions = sessions
        self._times = times
        self._limits = limits

    async def Register(self, request: pb.RegisterRequest, context: Context) -> pb.RegisterResponse:
        """Make a worker known, or again."""
        facts = read_facts(request)
        check(worker_faults(facts, self._limits))
        worker = await self._desk.register(facts)
        return pb.RegisterResponse(
            session=self._sessions.name(worker),
            lease_duration=duration(self._times.lease_s),
            renew_interval=duration(self._times.renew_interval_s),
            heartbeat_interval=duration(self._times.heartbeat_interval_s),
            assignment_timeout=duration(self._times.assignment_timeout_s),
            max_result_bytes=self._limits.result_bytes,
            max_error_bytes=self._limits.error_bytes,
            max_message_bytes=self._limits.message_bytes,
        )

    async def StreamJobs(
        self, request: pb.StreamJobsRequest, context: Context
    ) -> AsyncGenerator[pb.StreamJobsResponse, None]:
        """Send jobs as they come and as the worker has room."""
        worker = self._sessions.read(request.session)
        held = read_leases("held", request.held)
        # The first answer is the headers: the worker then knows that it is being served.
        await context.send_initial_metadata(())
        async with aclosing(self._desk.stream(worker, held)) as jobs:
            async for job in jobs:
                yield pb.StreamJobsResponse(job=job_message(job))

    async def StartJobs(
        self, request: pb.StartJobsRequest, context: Context
    ) -> pb.StartJobsResponse:
        """Start jobs that were sent."""
        worker = self._sessions.read(request.session)
        leases = read_leases("leases", request.leases)
        answers = await self._desk.start(worker, leases)
        return pb.StartJobsResponse(starts=[start_message(a.lease, a.state) for a in answers])

    async def Heartbeat(
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatResponse:
        """Beat, renew, and tell."""
        pulse = await self._desk.heartbeat(
            self._sessions.read(request.session),
            read_beat(request),
            read_leases("leases", request.leases),
            read_leases("watched", request.watched),
        )
        return heartbeat_message(pulse.command, pulse.renewals, pulse.cancelled)

    async def ReportResults(
        self, request: pb.ReportResultsRequest, context: Context
    ) -> pb.ReportResultsResponse:
        """Record what came of jobs."""
        worker = self._sessions.read(request.session)
        verdicts = await self._desk.settle(worker, read_results(request.results, self._limits))
        return pb.ReportResultsResponse(
            reports=[report_message(lease, verdict) for lease, verdict in verdicts.items()]
        )

    async def ReportProgress(
        self, request: pb.ReportProgressRequest, context: Context
    ) -> pb.ReportProgressResponse:
        """Keep how far jobs are."""
        worker = self._sessions.read(request.session)
        progress = read_progress(request.progress)
        lost = await self._desk.note_progress(worker, progress)
        return pb.ReportProgressResponse(lost=map(str, lost))

    async def ReleaseJobs(
        self, request: pb.ReleaseJobsRequest, context: Context
    ) -> pb.ReleaseJobsResponse:
        """Hand jobs back."""
        worker = self._sessions.read(request.session)
        leases = read_leases("leases", request.leases)
        held = read_leases("held", request.held)
        strays_but = held if request.strays else None
        released = await self._desk.release(worker, leases, strays_but=strays_but)
        return pb.ReleaseJobsResponse(released=released)

    async def Deregister(
        self, request: pb.DeregisterRequest, context: Context
    ) -> pb.DeregisterResponse:
        """Forget a worker."""
        await self._desk.deregister(self._sessions.read(request.session))
        return pb.DeregisterResponse()
