"""Callers that mean harm, or have lost their way: the door stays open, and tells nothing (R-9)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import CoroutineType as Coro
from typing import Any

import grpc
import pytest
import pytest_asyncio

from jobqueue.rpc import guard
from jobqueue.rpc.health import DrainingHealth
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as pb
from tests.support.certificates import Authority, settings
from tests.support.facade import Facade, bad_fields, serving
from tests.support.raw_http2 import call, unread
from tests.support.redis import free_port
from tests.support.waiting import eventually

KEY = "submit-key-0123456789"
SCHEMAS = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
SUBMIT = "/jobqueue.v1.JobService/SubmitJob"
HEALTH = "/grpc.health.v1.Health/Check"
_CUT_S = 15.0
"""Less than the time after which the library cuts a connection on which nobody answers."""


@pytest_asyncio.fixture
async def facade(database: str) -> AsyncIterator[Facade]:
    async with serving(database) as facade:
        yield facade


@pytest_asyncio.fixture
async def locked(database: str) -> AsyncIterator[Facade]:
    """A server that asks for a key."""
    async with serving(database, auth__api_keys=f"app:submit:{KEY}") as facade:
        yield facade


async def test_a_path_that_is_no_text_shuts_the_door_for_a_moment_only(
    facade: Facade, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = await facade.submit()
    for _ in range(2):
        watching: Any = facade.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id))
        await watching.read()
        await asyncio.to_thread(call, facade.port, b"/no/path\xff")

        async def reopened() -> bool:
            return "is opened again" in caplog.text and facade.server.serving

        await eventually(reopened, what="the door is open again")
        caplog.clear()
        with pytest.raises(grpc.aio.AioRpcError):
            await watching.read()  # those that were under way are told, not left to wait
        async with grpc.aio.insecure_channel(f"127.0.0.1:{facade.port}") as channel:
            await channel.channel_ready()
        assert (await facade.becomes(job_id, "PENDING")).job_id == job_id


async def test_a_door_with_tls_is_opened_again_each_time_on_either_port(
    database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, scaler_port = Authority(tmp_path), free_port()
    guarded = {**settings(authority.server()), "scaler__port": scaler_port, "scaler__tls": "server"}
    async with serving(database, **guarded) as facade:
        for port in (facade.port, scaler_port) * 2:
            await asyncio.to_thread(call, port, b"/no/path\xff", ca=authority.path)

            async def answers(port: int = port) -> bool:
                with contextlib.suppress(OSError):  # that of TLS too
                    said = await asyncio.to_thread(call, port, b"/no/path", ca=authority.path)
                    return "is opened again" in caplog.text and b"grpc-status" in said
                return False

            await eventually(answers, what="the door is open again")
            caplog.clear()


async def test_nothing_is_pending_in_the_library_but_its_loop_and_one_request_for_a_call(
    database: str,
) -> None:
    """More than one would be freed under the C core when a stranger makes its loop crash."""
    before = asyncio.all_tasks()
    async with serving(database):
        compiled = [t for t in asyncio.all_tasks() - before if not isinstance(t.get_coro(), Coro)]
    assert 1 <= len(compiled) <= 2


async def test_a_request_that_is_no_message_is_refused_like_any_bad_field(
    facade: Facade, caplog: pytest.LogCaptureFixture
) -> None:
    channel: Any = facade.channel
    name_that_is_no_text = b"\x0a\x04\x0a\x02\xff\xfe"
    for method, garbage in (
        (channel.unary_unary(SUBMIT), b"\xff\xff"),
        (channel.unary_unary(SUBMIT), name_that_is_no_text),
        (channel.unary_unary("/grpc.health.v1.Health/Check"), b"\xff\xff"),
        (channel.stream_unary(SCHEMAS), iter([b"\xff\xff"])),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(garbage)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert bad_fields(caught.value) == ["request"]
        assert "Error parsing" not in (caught.value.details() or "")
    assert "Traceback" not in caplog.text


async def test_metadata_that_is_no_text_is_not_logged(
    locked: Facade, caplog: pytest.LogCaptureFixture
) -> None:
    mistyped = KEY.encode() + b"\xff"
    answer = await asyncio.to_thread(
        call, locked.port, SUBMIT.encode(), authorization=b"Bearer " + mistyped
    )
    assert b"not valid" in answer
    assert "a caller sent metadata that is no text" in caplog.text
    assert KEY not in caplog.text


async def test_a_stranger_is_refused_before_the_request_is_taken_in(locked: Facade) -> None:
    answer = await asyncio.to_thread(
        call, locked.port, SUBMIT.encode(), b"the first bytes", withheld=30_000_000
    )
    assert b"an API key or token is needed" in answer


async def test_health_does_not_wait_for_a_request_that_does_not_come(
    locked: Facade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_REQUEST_S", 0.1)
    answer = await asyncio.to_thread(call, locked.port, HEALTH.encode(), b"", withheld=30_000_000)
    assert b"did not come in time" in answer


async def test_a_large_request_of_a_method_that_needs_none_is_refused(facade: Facade) -> None:
    many = pb.ListJobsRequest(statuses=[job_pb2.JOB_STATUS_DONE] * 2_000_000)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await facade.jobs.ListJobs(many)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "1048576 bytes at most" in (caught.value.details() or "")


async def test_a_watcher_that_takes_no_answer_does_not_hold_up_the_end(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[DrainingHealth] = []
    made = DrainingHealth.__init__

    def noted(self: DrainingHealth, *given: Any) -> None:
        made(self, *given)
        watched.append(self)

    monkeypatch.setattr(DrainingHealth, "__init__", noted)
    async with serving(database) as facade:

        async def is_held_up() -> bool:
            return any(h._server_watchers[""].locked() for h in watched if h._server_watchers)

        with unread(facade.port, b"/grpc.health.v1.Health/Watch", b""):
            await eventually(is_held_up, what="a word that cannot be sent")
            async with asyncio.timeout(_CUT_S):
                await facade.server.stop(grace_s=1.0)
