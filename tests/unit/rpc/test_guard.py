"""The guard around real calls of a real gRPC server, with a servicer that fails as asked."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from google.rpc import error_details_pb2 as details
from grpc_status import rpc_status

from jobqueue.errors import NotFound
from jobqueue.lease import desk
from jobqueue.rpc import guard as guard_module
from jobqueue.rpc import scaler_service, signals
from jobqueue.rpc.door import Door
from jobqueue.rpc.gate import Gate
from jobqueue.rpc.guard import Guard
from jobqueue.rpc.signals import CALL_ENDED, Call
from jobqueue.v1 import job_service_pb2 as pb
from jobqueue.v1.job_service_pb2_grpc import (
    JobServiceServicer,
    JobServiceStub,
    add_JobServiceServicer_to_server,
)
from tests.support.waiting import HANG_S, eventually

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class Servicer(JobServiceServicer):
    """Get fails as asked, Delete waits, Watch sends two answers and waits."""

    def __init__(self) -> None:
        self.error: Exception = NotFound("job", "x")
        self.entered = asyncio.Event()
        self.proceed = asyncio.Event()
        self.watch_ended = asyncio.Event()

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:  # noqa: N802
        raise self.error

    async def DeleteJob(self, request: pb.DeleteJobRequest, context: Any) -> pb.DeleteJobResponse:  # noqa: N802
        self.entered.set()
        await self.proceed.wait()
        return pb.DeleteJobResponse()

    async def WatchJob(  # noqa: N802
        self, request: pb.WatchJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobResponse]:
        try:
            yield pb.WatchJobResponse()
            yield pb.WatchJobResponse()
            if request.job_id == "fail":
                raise self.error
            if request.job_id != "end":
                await asyncio.Event().wait()
        finally:
            self.watch_ended.set()

    SubmitJob = SubmitJobs = ListJobs = ListJobEvents = CancelJob = RetryJob = None  # type: ignore[assignment]


class Served:
    """A served servicer and a stub that calls it."""

    def __init__(self, servicer: Servicer, gate: Gate, channel: Any) -> None:
        self.servicer = servicer
        self.gate = gate
        self.channel = channel
        self.stub: Any = JobServiceStub(channel)


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    gate, servicer = Gate(), Servicer()
    door = Door(Guard(gate))
    add_JobServiceServicer_to_server(servicer, cast("grpc.aio.Server", door))
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((door,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Served(servicer, gate, channel)
    await server.stop(0)


def reason(error: grpc.aio.AioRpcError) -> str:
    status = rpc_status.from_call(error)
    assert status is not None
    info = details.ErrorInfo()
    assert status.details[0].Unpack(info)
    return str(info.reason)


async def test_an_error_of_ours_reaches_the_caller_with_its_details() -> None:
    async with serving() as door:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await door.stub.GetJob(pb.GetJobRequest())
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == "job 'x' not found"
    assert reason(caught.value) == "JOB_NOT_FOUND"


async def test_an_unexpected_error_tells_nothing_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as door:
        door.servicer.error = ValueError("password=hunter2")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await door.stub.GetJob(pb.GetJobRequest())
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "hunter2" not in str(caught.value)
    lines = [r for r in caplog.records if r.levelname == "ERROR"]
    assert [line.getMessage() for line in lines] == ["a call failed unexpectedly"]


async def test_a_stream_passes_and_ends_by_itself() -> None:
    async with serving() as door:
        answers = [answer async for answer in door.stub.WatchJob(pb.WatchJobRequest(job_id="end"))]
    assert len(answers) == 2


async def test_an_error_in_a_stream_comes_after_what_was_sent() -> None:
    async with serving() as door:
        call = door.stub.WatchJob(pb.WatchJobRequest(job_id="fail"))
        assert await call.read() == pb.WatchJobResponse()
        assert await call.read() == pb.WatchJobResponse()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_closed_gate_refuses_new_calls() -> None:
    async with serving() as door:
        door.gate.close()
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await door.stub.DeleteJob(pb.DeleteJobRequest())
        with pytest.raises(grpc.aio.AioRpcError) as stream:
            await door.stub.WatchJob(pb.WatchJobRequest()).read()
    for caught in (unary, stream):
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert reason(caught.value) == "SHUTTING_DOWN"


async def test_a_closing_gate_lets_a_call_under_way_finish() -> None:
    async with serving() as door:
        call = door.stub.DeleteJob(pb.DeleteJobRequest())
        await door.servicer.entered.wait()
        door.gate.close()
        door.servicer.proceed.set()
        assert await call == pb.DeleteJobResponse()


async def test_a_closing_gate_ends_a_stream_that_waits() -> None:
    async with serving() as door:
        call = door.stub.WatchJob(pb.WatchJobRequest())
        await call.read()
        await call.read()
        door.gate.close()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        await door.servicer.watch_ended.wait()
    assert reason(caught.value) == "SHUTTING_DOWN"


async def test_a_stream_ends_after_its_life_so_that_its_caller_asks_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard_module, "STREAM_S", 0.0)
    async with serving() as door:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [_ async for _ in door.stub.WatchJob(pb.WatchJobRequest(), timeout=HANG_S)]
        await door.servicer.watch_ended.wait()
        assert (caught.value.code(), reason(caught.value)) == (UNAVAILABLE, "STREAM_OVER")
        monkeypatch.setattr(guard_module, "_TO_THEIR_ENDS", {"JobService/WatchJob"})
        whole = door.stub.WatchJob(pb.WatchJobRequest(job_id="end"))
        assert len([_ async for _ in whole]) == 2


def test_streams_that_end_well_by_themselves_do_so_before_the_guard_ends_them() -> None:
    assert max(desk.STREAM_S * 1.1, scaler_service.LIFE_S) < guard_module.STREAM_S * 0.98


async def test_a_cancelled_stream_ends_the_work_behind_it() -> None:
    async with serving() as door:
        call = door.stub.WatchJob(pb.WatchJobRequest())
        await call.read()
        call.cancel()
        async with asyncio.timeout(HANG_S):
            await door.servicer.watch_ended.wait()


@contextmanager
def ended_calls() -> Iterator[list[tuple[str, str]]]:
    """Collect method and code of each call that ends in the block."""
    seen: list[tuple[str, str]] = []
    stop = CALL_ENDED.subscribe(lambda call: seen.append((call.method, call.status_code)))
    yield seen
    stop()


async def test_every_end_of_a_call_is_signalled_with_its_code() -> None:
    async with serving() as door:
        door.servicer.proceed.set()
        with ended_calls() as seen:
            await door.stub.DeleteJob(pb.DeleteJobRequest())
            for door.servicer.error in (NotFound("job", "x"), ValueError("a fault of ours")):
                with pytest.raises(grpc.aio.AioRpcError):
                    await door.stub.GetJob(pb.GetJobRequest())
            assert [_ async for _ in door.stub.WatchJob(pb.WatchJobRequest(job_id="end"))]
            with pytest.raises(grpc.aio.AioRpcError):
                await door.channel.unary_unary("/jobqueue.v1.JobService/Nothing")(b"")
            with pytest.raises(grpc.aio.AioRpcError):
                await door.channel.unary_unary("/any.Thing/AtAll")(b"")
    assert seen == [
        ("JobService/DeleteJob", "OK"),
        ("JobService/GetJob", "NOT_FOUND"),
        ("JobService/GetJob", "INTERNAL"),
        ("JobService/WatchJob", "OK"),
        ("unknown", "UNIMPLEMENTED"),
        ("unknown", "UNIMPLEMENTED"),
    ]


@pytest.mark.parametrize(
    ("timeout_s", "code"),
    [
        (None, "CANCELLED"),
        (60.0, "CANCELLED"),
        # So long that a busy machine has begun both calls by then.
        pytest.param(15.0, "DEADLINE_EXCEEDED", marks=pytest.mark.slow),
    ],
)
async def test_a_call_whose_caller_leaves_is_signalled_as_what_it_was(
    timeout_s: float | None, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if code == "DEADLINE_EXCEEDED":
        # How long a request is on its way on a busy machine is not what is tested here.
        monkeypatch.setattr(signals, "DEADLINE_SLACK_S", 30.0)
    async with serving() as door:
        with ended_calls() as seen:
            stream = door.stub.WatchJob(pb.WatchJobRequest(), timeout=timeout_s)
            await stream.read()
            unary = door.stub.DeleteJob(pb.DeleteJobRequest(), timeout=timeout_s)
            await door.servicer.entered.wait()
            if code == "CANCELLED":
                stream.cancel()
                unary.cancel()

            async def both() -> bool:
                return len(seen) == 2

            await eventually(both, within_s=15 + HANG_S, what="the ends of both calls")
    assert sorted(seen) == [("JobService/DeleteJob", code), ("JobService/WatchJob", code)]


@pytest.mark.parametrize(
    ("left_s", "code"),
    [
        (None, "CANCELLED"),
        (1.0, "CANCELLED"),
        (0.26, "CANCELLED"),
        (0.24, "DEADLINE_EXCEEDED"),
        (0.0, "DEADLINE_EXCEEDED"),
    ],
)
def test_a_caller_who_leaves_close_to_the_deadline_left_because_of_it(
    left_s: float | None, code: str
) -> None:
    context = SimpleNamespace(time_remaining=lambda: left_s)
    with ended_calls() as seen, Call("JobService/GetJob", cast("Any", context)):
        pass
    assert seen == [("JobService/GetJob", code)]
