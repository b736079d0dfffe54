"""One connection to WorkerService, with errors of ours."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc
import grpc.aio

from jobqueue.remote.certificates import CertificateFiles
from jobqueue.transport import Route, channel_options, credentials, translate
from jobqueue.v1 import worker_service_pb2 as pb
from jobqueue.v1.worker_service_pb2_grpc import WorkerServiceStub

_OPTIONS = [
    # An attempt to connect may take this long: a server that vanished is given up soon.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    # A peer that vanished without a word ends the stream of jobs; the server allows 20 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Two links of one process must not share a fate.
    ("grpc.use_local_subchannel_pool", 1),
]


class Link:
    """Calls the server of ``route``. Make it, and use it, on one running loop.

    Methods raise ``jobqueue.errors``. Every call may take ``timeout_s`` seconds; the stream of jobs
    has no end of its own. Certificate files that were renewed are used from the next call on; what
    is under way ends on the connection on which it began.
    """

    def __init__(self, route: Route, *, timeout_s: float | None = None) -> None:
        """``timeout_s`` None: as the route says. Raises InvalidArgument for unreadable files."""
        self.timeout_s = route.timeout_s if timeout_s is None else timeout_s
        self._route = route
        self._files = CertificateFiles(route.tls) if route.tls else None
        self._ways = [_Way(route, credentials(route.tls) if route.tls else None)]

    async def close(self) -> None:
        """End the connection and what is under way on it."""
        for way in self._ways:
            await way.channel.close()

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
                raise translate(error, self._route.address) from error
            finally:
                stream.cancel()

    async def _call(self, method: str, request: Any) -> Any:
        async with self._way() as stub:
            send = getattr(stub, method)
            try:
                return await send(request, timeout=self.timeout_s, metadata=self._route.metadata())
            except grpc.RpcError as error:
                raise translate(error, self._route.address) from error

    @contextlib.asynccontextmanager
    async def _way(self) -> AsyncIterator[Any]:
        """Yield the stub for one call, on a new connection where the certificates are new."""
        if self._files is not None and (renewed := self._files.renewed()):
            self._ways.append(_Way(self._route, renewed))
        way = self._ways[-1]
        way.calls += 1
        try:
            yield way.stub
        finally:
            way.calls -= 1
            await self._close_old()

    async def _close_old(self) -> None:
        """Close the connections of older certificates on which nothing is under way any more."""
        done = [way for way in self._ways[:-1] if not way.calls]
        self._ways = [way for way in self._ways if way not in done]
        for way in done:
            await way.channel.close()


class _Way:
    """One connection, and how many calls are under way on it."""

    def __init__(self, route: Route, identity: grpc.ChannelCredentials | None) -> None:
        options = [*channel_options(route.address), *_OPTIONS]
        self.calls = 0
        self.channel = (
            grpc.aio.insecure_channel(route.address, options)
            if identity is None
            else grpc.aio.secure_channel(route.address, identity, options)
        )
        # Quoted elsewhere: the asynchronous stub exists for the type checker only.
        self.stub: Any = WorkerServiceStub(self.channel)
