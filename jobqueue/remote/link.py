"""One connection to WorkerService, with errors of ours."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from jobqueue.errors import DeadlineExceeded
from jobqueue.remote.signals import CERTIFICATES_CHANGED
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.runtime.ending import end
from jobqueue.runtime.tasks import start_detached
from jobqueue.transport import Route, Way, Ways, channel_options
from jobqueue.v1 import worker_service_pb2 as pb
from jobqueue.v1.worker_service_pb2_grpc import WorkerServiceStub

_OPTIONS = [
    # An attempt to connect may take this long: a server that vanished is given up soon.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    # Two links of one process must not share a fate.
    ("grpc.use_local_subchannel_pool", 1),
]

_STANDS_WITHIN_S = 3.0
"""Time to try several addresses, and little beside what is left of a lease."""

_LOOK_S = 0.02

AGAIN_S = 5.0
"""A server that is slow for all of its workers must not have them all connect all the time."""


class Link:
    """Calls the server of ``route``. Make it, and use it, on one running loop.

    Methods raise ``jobqueue.errors``. Every call may take ``timeout_s`` seconds; the stream of jobs
    has no end of its own. A connection that breaks is made again with the certificates of then.

    A call that was not answered in time tells that the server may stand still, or be gone without
    a word, which the connection would learn far too late for leases (``transport.pings``). So
    another one is tried, as there may be another server under the same name. Calls begin on it
    once it stands; until then, and if it does not, on the one there is, which may only be slow.
    Whatever is under way stays where it is.
    """

    def __init__(
        self, route: Route, *, timeout_s: float | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """``timeout_s`` None: as the route says. Raises InvalidArgument for unreadable files."""
        self.timeout_s = route.timeout_s if timeout_s is None else timeout_s
        self._route = route
        self._clock = clock
        self._ways = Ways(route, self._connect, CERTIFICATES_CHANGED.emit)
        self._replacing: asyncio.Task[None] | None = None
        self._replaced_at = -math.inf

    async def close(self) -> None:
        """End the connection and what is under way on it."""
        if self._replacing is not None:
            await end(self._replacing)
        for connection in self._ways.close():
            await connection.channel.close()

    async def register(self, request: pb.RegisterRequest) -> pb.RegisterResponse:
        """Make a worker known, or again."""
        answer: pb.RegisterResponse = await self._call("Register", request)
        return answer

    async def start_jobs(self, request: pb.StartJobsRequest) -> pb.StartJobsResponse:
        """Start jobs that were sent."""
        answer: pb.StartJobsResponse = await self._call("StartJobs", request)
        return answer

    async def heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        """Beat, renew, hear."""
        answer: pb.HeartbeatResponse = await self._call("Heartbeat", request)
        return answer

    async def report_results(self, request: pb.ReportResultsRequest) -> pb.ReportResultsResponse:
        """Record what came of jobs."""
        answer: pb.ReportResultsResponse = await self._call("ReportResults", request)
        return answer

    async def report_progress(self, request: pb.ReportProgressRequest) -> pb.ReportProgressResponse:
        """Keep how far jobs are."""
        answer: pb.ReportProgressResponse = await self._call("ReportProgress", request)
        return answer

    async def release_jobs(self, request: pb.ReleaseJobsRequest) -> pb.ReleaseJobsResponse:
        """Hand jobs back."""
        answer: pb.ReleaseJobsResponse = await self._call("ReleaseJobs", request)
        return answer

    async def deregister(self, request: pb.DeregisterRequest) -> None:
        """Say that a worker ends."""
        await self._call("Deregister", request)

    async def stream_jobs(
        self, request: pb.StreamJobsRequest
    ) -> AsyncGenerator[pb.AssignedJob, None]:
        """Yield jobs as they come. Closing the generator cuts the stream."""
        async with self._way() as way:
            stream = way.connection.stub.StreamJobs(request, metadata=self._route.metadata())
            try:
                async for answer in stream:
                    yield answer.job
            except grpc.RpcError as error:
                raise self._ways.failed(error) from error
            finally:
                stream.cancel()

    async def _call(self, method: str, request: Any) -> Any:
        async with self._way() as way:
            send = getattr(way.connection.stub, method)
            try:
                return await send(request, timeout=self.timeout_s, metadata=self._route.metadata())
            except grpc.RpcError as error:
                ours = self._ways.failed(error)
                if isinstance(ours, DeadlineExceeded):
                    self._doubt(way)
                raise ours from error

    @asynccontextmanager
    async def _way(self) -> "AsyncIterator[Way[_Connection]]":
        """Yield the way for one call."""
        if self._replacing is not None:
            await asyncio.wait({self._replacing})
        way = self._ways.begin()
        try:
            yield way
        finally:
            for old in self._ways.end(way):
                await old.channel.close()

    def _doubt(self, way: "Way[_Connection]") -> None:
        """Try another connection than that of an unanswered call, unless that was just done."""
        if self._replacing is None and self._clock.monotonic() >= self._replaced_at + AGAIN_S:
            self._replacing = start_detached(self._replace(way), "replace a connection")

    async def _replace(self, way: "Way[_Connection]") -> None:
        try:
            if spare := self._ways.spare(way):
                self._replaced_at = self._clock.monotonic()
                await self._try(spare, way)
        finally:
            self._replacing = None

    async def _try(self, spare: "_Connection", way: "Way[_Connection]") -> None:
        taken = False
        try:
            stands = await _stands(spare.channel, min(_STANDS_WITHIN_S, self.timeout_s))
            taken = stands and self._ways.replace(way, spare)
        finally:
            if not taken:
                await spare.channel.close()

    def _connect(self, identity: grpc.ChannelCredentials | None) -> "_Connection":
        options = [*channel_options(self._route.address), *_OPTIONS]
        channel = (
            grpc.aio.insecure_channel(self._route.address, options)
            if identity is None
            else grpc.aio.secure_channel(self._route.address, identity, options)
        )
        return _Connection(channel, WorkerServiceStub(channel))


@dataclass(frozen=True, slots=True)
class _Connection:
    channel: grpc.aio.Channel
    stub: Any  # the asynchronous one exists for the type checker only


async def _stands(channel: grpc.aio.Channel, within_s: float) -> bool:
    """Connect; tell whether a server answered in time."""
    # By looks: to stop waiting for a change of a channel's state is not safe in grpc.aio.
    for _ in range(math.ceil(within_s / _LOOK_S)):
        if channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return True
        await asyncio.sleep(_LOOK_S)
    return False
