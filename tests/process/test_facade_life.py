"""The life of a server: health, drain, streams at the end, an outage in the middle."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import psutil
import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import Unavailable
from jobqueue.rpc import server as server_module
from jobqueue.rpc.server import SERVICES
from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as pb
from tests.support.facade import Facade, reason, serving
from tests.support.waiting import HANG_S, eventually

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_TAKEN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
"""CANCELLED: still on the wire when the server ended. Our client repeats both."""
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest_asyncio.fixture
async def facade(database: str) -> AsyncIterator[Facade]:
    async with serving(database) as facade:
        yield facade


@pytest.mark.parametrize("service", ["", *SERVICES])
async def test_health_is_told_for_the_server_and_each_service(facade: Facade, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(facade.channel)
    assert (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status == SERVING


async def test_reflection_lists_the_services(facade: Facade) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(facade.channel)
    call = stub.ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    )
    answer = await call.read()
    names = {service.name for service in answer.list_services_response.service}
    assert {*SERVICES, "grpc.health.v1.Health"} <= names


async def test_a_stopping_server_says_so_ends_streams_and_refuses(facade: Facade) -> None:
    job_id = await facade.submit()
    health = health_pb2_grpc.HealthStub(facade.channel).Watch(health_pb2.HealthCheckRequest())
    assert (await health.read()).status == SERVING
    watch = facade.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id))
    await watch.read()
    stopping = asyncio.create_task(facade.server.stop(grace_s=600.0))
    assert (await health.read()).status == NOT_SERVING
    assert await health.read() is grpc.aio.EOF
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watch.read()
    assert reason(caught.value) == "SHUTTING_DOWN"
    async with asyncio.timeout(HANG_S):
        await stopping
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await facade.get(job_id)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_stream_outlives_the_connections_that_make_room_for_newer_ones(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = server_module._options

    def hasty(message_bytes: int) -> list[tuple[str, int]]:
        return [
            (name, 1_000 if "connection_age" in name else value)
            for name, value in real(message_bytes)
        ]

    monkeypatch.setattr(server_module, "_options", hasty)
    async with serving(database) as facade:
        job_id = await facade.submit()
        watch = facade.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id))
        await watch.read()
        seen: set[int] = set()

        async def four_connections() -> bool:
            await facade.get(job_id)
            mine = psutil.Process().net_connections("tcp")
            seen.update(c.laddr.port for c in mine if tuple(c.raddr)[1:] == (facade.port,))
            return len(seen) >= 4

        await eventually(four_connections, what="three connections past their age")
        await facade.jobs.CancelJob(pb.CancelJobRequest(job_id=job_id))
        ended = await watch.read()
        assert isinstance(ended, pb.WatchJobResponse)
        assert ended.job.status == job_pb2.JOB_STATUS_DEAD_LETTERED


async def test_submissions_under_way_are_stored_before_the_server_ends(database: str) -> None:
    async with serving(database) as facade:
        calls = [asyncio.create_task(facade.submit()) for _ in range(200)]
        await calls[0]
        await facade.server.stop(grace_s=10.0)
        answers = await asyncio.gather(*calls, return_exceptions=True)
    stored = [answer for answer in answers if isinstance(answer, str)]
    refused = [answer for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
    assert len(stored) + len(refused) == len(calls)
    assert {answer.code() for answer in refused} <= NOT_TAKEN
    async with serving(database) as facade:
        for job_id in stored:
            await facade.get(job_id)


async def test_a_hurried_end_does_not_wait_for_the_grace(facade: Facade) -> None:
    hurry = asyncio.Event()
    hurry.set()
    async with asyncio.timeout(HANG_S):
        await facade.server.stop(grace_s=3600.0, hurry=hurry)


async def test_a_deadline_that_passed_ends_the_call(facade: Facade) -> None:
    job_id = await facade.submit()
    call = facade.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id), timeout=5.0)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        _ = [job async for job in call]
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_two_servers_start_at_once_on_one_database(database: str) -> None:
    async with serving(database) as one, serving(database) as other:
        job_id = await one.submit()
        assert (await other.get(job_id)).job_id == job_id


async def test_a_taken_port_keeps_the_server_from_starting(facade: Facade, database: str) -> None:
    with pytest.raises(Unavailable, match="cannot listen"):
        async with serving(database, grpc__port=facade.port):
            pytest.fail("it started")


async def test_an_outage_of_the_database_does_not_end_the_server(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "pg", durable=False)
    await asyncio.to_thread(postgres.start)
    try:
        async with serving(postgres.dsn) as facade:
            job_id = await facade.submit()
            await asyncio.to_thread(postgres.stop)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await facade.get(job_id)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            status = await facade.admin.GetSystemStatus(admin_pb.GetSystemStatusRequest())
            assert status.components[0].state == "down"
            await asyncio.to_thread(postgres.start)

            async def found_again() -> bool:
                try:
                    return (await facade.get(job_id)).job_id == job_id
                except grpc.aio.AioRpcError:
                    return False

            await eventually(found_again, what="an answer after the outage")

            async def well() -> bool:
                status = await facade.admin.GetSystemStatus(admin_pb.GetSystemStatusRequest())
                return all(part.state in {"ok", "off"} for part in status.components)

            await eventually(well, what="every loop at work again")
    finally:
        await asyncio.to_thread(postgres.stop)
