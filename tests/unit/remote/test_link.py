"""Which connection a call of a remote worker takes after one that nobody answered in time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from jobqueue.errors import DeadlineExceeded
from jobqueue.remote.link import AGAIN_S, Link
from jobqueue.runtime.clock import ManualClock
from jobqueue.transport import Route
from jobqueue.transport.pings import ANSWER_S
from jobqueue.v1 import worker_service_pb2 as pb
from tests.chaos import network
from tests.support.waiting import HANG_S

SHORT_S = 0.3


class Server:
    """Notes on which connection it is called; answers, or is silent for all that callers know."""

    def __init__(self) -> None:
        self.peers: list[str] = []
        self.streams = 0
        self.jobs: asyncio.Queue[str] = asyncio.Queue()
        self.silent = False
        service = pb.DESCRIPTOR.services_by_name["WorkerService"].full_name
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Heartbeat": grpc.unary_unary_rpc_method_handler(
                self._heartbeat,
                pb.HeartbeatRequest.FromString,
                pb.HeartbeatResponse.SerializeToString,
            ),
            "StreamJobs": grpc.unary_stream_rpc_method_handler(
                self._stream,
                pb.StreamJobsRequest.FromString,
                pb.StreamJobsResponse.SerializeToString,
            ),
        }
        handler = grpc.method_handlers_generic_handler(service, methods)
        self._server = grpc.aio.server(handlers=[handler])
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.start, self.stop = self._server.start, self._server.stop

    async def _heartbeat(self, _: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatResponse:
        self.peers.append(context.peer())
        if self.silent:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        return pb.HeartbeatResponse()

    async def _stream(
        self, _: pb.StreamJobsRequest, __: Any
    ) -> AsyncIterator[pb.StreamJobsResponse]:
        self.streams += 1
        while lease := await self.jobs.get():
            yield pb.StreamJobsResponse(job=pb.AssignedJob(lease=lease))


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    await server.start()
    yield server
    await server.stop(None)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest_asyncio.fixture
async def other() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def link(server: Server, clock: ManualClock) -> AsyncIterator[Link]:
    link = Link(Route(f"127.0.0.1:{server.port}"), timeout_s=HANG_S, clock=clock)
    yield link
    await link.close()


async def beat(link: Link) -> None:
    await link.heartbeat(pb.HeartbeatRequest())


async def is_unanswered(link: Link, timeout_s: float = HANG_S) -> None:
    link.timeout_s = timeout_s
    with pytest.raises(DeadlineExceeded):
        await beat(link)
    link.timeout_s = HANG_S


async def test_calls_go_on_over_a_new_connection_and_a_stream_stays_on_the_old_one(
    server: Server, link: Link
) -> None:
    async with aclosing(link.stream_jobs(pb.StreamJobsRequest())) as jobs:
        server.jobs.put_nowait("1-1")
        assert (await anext(jobs)).lease == "1-1"
        await beat(link)
        server.silent = True
        await is_unanswered(link)
        server.silent = False
        await beat(link)
        await beat(link)
        before, silent, *after = server.peers
        assert before == silent not in after
        assert len(set(after)) == 1
        server.jobs.put_nowait("1-2")
        assert (await anext(jobs)).lease == "1-2"
        assert server.streams == 1


async def test_a_server_that_stays_slow_is_connected_to_only_now_and_then(
    server: Server, link: Link, clock: ManualClock
) -> None:
    server.silent = True
    for _ in range(5):
        await is_unanswered(link)
    first, *rest = server.peers
    assert len(set(rest)) == 1
    assert first not in rest
    clock.advance(AGAIN_S)
    for _ in range(5):
        await is_unanswered(link)
    assert len(set(server.peers)) == 3


async def test_behind_a_dead_network_another_server_is_found(server: Server, other: Server) -> None:
    dying = network.Link(network.to_port(server.port))
    link = Link(Route(f"ipv4:{dying.address},127.0.0.1:{other.port}"), timeout_s=HANG_S)
    try:
        await beat(link)
        dying.turn(network.Weather.STILL)
        await is_unanswered(link, SHORT_S)
        assert (len(server.peers), len(other.peers)) == (1, 0)
        link.timeout_s = ANSWER_S / 2  # long before the old connection breaks
        await beat(link)
        assert (len(server.peers), len(other.peers)) == (1, 1)
        assert dying.hit > 0
    finally:
        await link.close()
        dying.close()


async def test_where_there_is_nobody_else_calls_stay_on_the_connection_that_they_have(
    server: Server,
) -> None:
    way = network.Link(network.to_port(server.port))
    link = Link(Route(way.address), timeout_s=HANG_S, clock=ManualClock())
    try:
        await beat(link)
        way.turn(network.Weather.STILL)
        await is_unanswered(link, SHORT_S)
        await is_unanswered(link, SHORT_S)
        assert way.hit > 0
        way.turn(network.Weather.FAIR)
        await beat(link)
        assert len(set(server.peers)) == 1
    finally:
        await link.close()
        way.close()
