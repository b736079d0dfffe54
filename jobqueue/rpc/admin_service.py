"""AdminService: queues, workers and the state of the system."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import grpc

from jobqueue.domain.limits import Limits
from jobqueue.errors import DeadlineExceeded, Unavailable
from jobqueue.rpc.components import DEGRADED, DOWN, OK, component, loop_states
from jobqueue.rpc.convert_admin import (
    DEFAULT_WINDOW_S,
    queue_message,
    read_change,
    read_name,
    read_new_policy,
    read_window,
    stats_message,
    worker_message,
)
from jobqueue.rpc.convert_doctor import step_message
from jobqueue.rpc.times import timestamp
from jobqueue.runtime.service import Service
from jobqueue.submission.doctor import Doctor
from jobqueue.submission.queues import Queues
from jobqueue.submission.system import System
from jobqueue.submission.workers import Workers
from jobqueue.v1 import admin_service_pb2 as pb
from jobqueue.v1 import doctor_pb2
from jobqueue.v1.admin_service_pb2_grpc import AdminServiceServicer

# Unused by our methods: the guard is the only one that answers through it.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_LOOK_S = 3.0
"""What reading tables may take while a caller waits for the state of the system."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What this server says about itself.

    ``loops``, and ``helpers`` about services beside PostgreSQL, are asked when somebody wants to
    know.
    """

    version: str
    commit: str
    loops: Sequence[Service] = ()
    helpers: Callable[[], Sequence[pb.ComponentStatus]] = tuple
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))


class AdminService(AdminServiceServicer):
    """Reads a request, asks the submission room, writes the answer. Errors pass to the guard."""

    def __init__(
        self,
        queues: Queues,
        workers: Workers,
        system: System,
        doctor: Doctor,
        limits: Limits,
        facts: ServerFacts,
    ) -> None:
        self._queues = queues
        self._workers = workers
        self._system = system
        self._doctor = doctor
        self._limits = limits
        self._facts = facts

    async def CreateQueue(
        self, request: pb.CreateQueueRequest, context: Context
    ) -> pb.CreateQueueResponse:
        """Make a queue."""
        name = read_name(request.name, self._limits)
        queue = await self._queues.create(name, read_new_policy(request.policy))
        return pb.CreateQueueResponse(queue=queue_message(queue))

    async def UpdateQueue(
        self, request: pb.UpdateQueueRequest, context: Context
    ) -> pb.UpdateQueueResponse:
        """Change the policy fields that the mask names."""
        name = read_name(request.name, self._limits)
        queue = await self._queues.update(name, read_change(request))
        return pb.UpdateQueueResponse(queue=queue_message(queue))

    async def GetQueue(self, request: pb.GetQueueRequest, context: Context) -> pb.GetQueueResponse:
        """Return one queue."""
        queue = await self._queues.get(read_name(request.name, self._limits))
        return pb.GetQueueResponse(queue=queue_message(queue))

    async def ListQueues(
        self, request: pb.ListQueuesRequest, context: Context
    ) -> pb.ListQueuesResponse:
        """Return all queues by name."""
        return pb.ListQueuesResponse(queues=map(queue_message, await self._queues.list()))

    async def DeleteQueue(
        self, request: pb.DeleteQueueRequest, context: Context
    ) -> pb.DeleteQueueResponse:
        """Delete a queue; a forced deletion answers when no job is left in it."""
        name = read_name(request.name, self._limits)
        cancelled = await self._queues.delete(name, force=request.force)
        return pb.DeleteQueueResponse(cancelled_count=cancelled)

    async def PauseQueue(
        self, request: pb.PauseQueueRequest, context: Context
    ) -> pb.PauseQueueResponse:
        """Stop claims from a queue."""
        queue = await self._queues.pause(read_name(request.name, self._limits))
        return pb.PauseQueueResponse(queue=queue_message(queue))

    async def ResumeQueue(
        self, request: pb.ResumeQueueRequest, context: Context
    ) -> pb.ResumeQueueResponse:
        """Let claims go on."""
        queue = await self._queues.resume(read_name(request.name, self._limits))
        return pb.ResumeQueueResponse(queue=queue_message(queue))

    async def GetQueueStats(
        self, request: pb.GetQueueStatsRequest, context: Context
    ) -> pb.GetQueueStatsResponse:
        """Return the figures of one queue or of all."""
        name = read_name(request.queue, self._limits, "queue") if request.queue else None
        stats = await self._queues.stats(name, read_window(request))
        return pb.GetQueueStatsResponse(stats=map(stats_message, stats))

    async def ListWorkers(
        self, request: pb.ListWorkersRequest, context: Context
    ) -> pb.ListWorkersResponse:
        """Return all registered workers."""
        return pb.ListWorkersResponse(workers=map(worker_message, await self._workers.list()))

    async def DrainWorker(
        self, request: pb.DrainWorkerRequest, context: Context
    ) -> pb.DrainWorkerResponse:
        """Ask a worker to finish what it runs and claim nothing more."""
        await self._workers.drain(read_name(request.worker_id, self._limits, "worker_id"))
        return pb.DrainWorkerResponse()

    async def ShutdownWorker(
        self, request: pb.ShutdownWorkerRequest, context: Context
    ) -> pb.ShutdownWorkerResponse:
        """Ask a worker to drain and end."""
        await self._workers.shutdown(read_name(request.worker_id, self._limits, "worker_id"))
        return pb.ShutdownWorkerResponse()

    async def GetSystemStatus(
        self, request: pb.GetSystemStatusRequest, context: Context
    ) -> pb.GetSystemStatusResponse:
        """Tell how everything is, above all when the database is not well.

        Within some seconds: callers give up after ten.
        """
        status = pb.GetSystemStatusResponse(
            version=f"{self._facts.version} ({self._facts.commit})",
            started_at=timestamp(self._facts.started_at),
        )
        database = await self._database()
        if database.state == OK and not await self._could_add_stored(status):
            database = component("postgresql", DEGRADED, "queues and workers could not be read")
        loops = loop_states(self._facts.loops)
        status.components.extend([database, *self._facts.helpers(), *loops])
        return status

    async def RunDoctor(
        self, request: doctor_pb2.RunDoctorRequest, context: Context
    ) -> AsyncIterator[doctor_pb2.RunDoctorResponse]:
        """Send what each check finds, as it ends."""
        checkup = self._doctor.run(request.checks, quick=request.quick)
        async with aclosing(checkup) as steps:
            async for step in steps:
                yield step_message(step)

    async def GetVersion(
        self, request: pb.GetVersionRequest, context: Context
    ) -> pb.GetVersionResponse:
        """Return version and commit."""
        return pb.GetVersionResponse(version=self._facts.version, commit=self._facts.commit)

    async def _database(self) -> pb.ComponentStatus:
        try:
            return component("postgresql", OK, await self._system.database())
        except (Unavailable, DeadlineExceeded) as error:
            return component("postgresql", DOWN, error.message)

    async def _could_add_stored(self, status: pb.GetSystemStatusResponse) -> bool:
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._add_stored(status)
        except (Unavailable, DeadlineExceeded, TimeoutError):
            return False
        return True

    async def _add_stored(self, status: pb.GetSystemStatusResponse) -> None:
        stats = await self._queues.stats(None, DEFAULT_WINDOW_S)
        workers = await self._workers.list()
        waiting = await self._system.unhandled()
        status.queues.extend(map(stats_message, stats))
        status.workers.extend(map(worker_message, workers))
        status.unhandled.extend(
            pb.UnhandledType(queue=queue, type=kind or "", count=count)
            for queue, kind, count in waiting
        )
