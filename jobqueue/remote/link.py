"""One connection to WorkerService, with errors of ours."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from jobqueue.remote.signals import CERTIFICATES_CHANGED
from jobqueue.transport import Route, Ways, channel_options
from jobqueue.v1 import worker_service_pb2 as pb
from jobqueue.v1.worker_service_pb2_grpc import WorkerServiceStub

_OPTIONS = [
    # An attempt to connect may take this long: a server that vanished is given up soon.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    # Two links of one process must not share a fate.
    ("grpc.use_local_subchannel_pool", 1),
]


class Link:
    """Calls the server of ``route``. Make it, and use it, on one running loop.

    Methods raise ``jobqueue.errors``. Every call may take ``timeout_s`` seconds; the stream of jobs
    has no end of its own. A connection that breaks is made again with the certificates of then.
    """

    def __init__(self, route: Route, *, timeout_s: float | None = None) -> None:
        """``timeout_s`` None: as the route says. Raises InvalidArgument for unreadable files."""
        self.timeout_s = route.timeout_s if timeout_s is None else timeout_s
        self._route = route
        self._ways = Ways(route, self._connect, CERTIFICATES_CHANGED.emit)

    async def close(self) -> None:
        """End the connection and what is under way on it."""
        for connection in self._ways.all():
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
        async with self._way() as stub:
            stream = stub.StreamJobs(request, metadata=self._route.metadata())
            try:
                async for answer in stream:
                    yield answer.job
            except grpc.RpcError as error:
                raise self._ways.failed(error) from error
            finally:
                stream.cancel()

    async def _call(self, method: str, request: Any) -> Any:
        async with self._way() as stub:
            send = getattr(stub, method)
            try:
                return await send(request, timeout=self.timeout_s, metadata=self._route.metadata())
            except grpc.RpcError as error:
                raise self._ways.failed(error) from error

    @asynccontextmanager
    async def _way(self) -> AsyncIterator[Any]:
        """Yield the stub for one call."""
        way = self._ways.begin()
        try:
            yield way.connection.stub
        finally:
            for old in self._ways.end(way):
                await old.channel.close()

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
