"""KEDA's calls to a real server: figures, pushes, protection, the end (R-10.2)."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from google.protobuf.empty_pb2 import Empty
from grpc_health.v1 import health_pb2, health_pb2_grpc

from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.rpc.signals import CALL_ENDED, CallEnded
from jobqueue.runtime.service import running_services
from jobqueue.store.signals import QUERY_ENDED, QueryEnded
from jobqueue.submission import demand
from jobqueue.submission.figures import FigureReader
from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_service_pb2 as pb
from tests.support.certificates import Authority, settings
from tests.support.facade import Facade, bad_fields, reason, serving
from tests.support.keda import Keda
from tests.support.metrics import scrape
from tests.support.programs import ServerProgram, dry_run
from tests.support.redis import free_port
from tests.support.waiting import HANG_S, eventually

DEPTH = {"queues": "default", "targetPerReplica": "2"}
NEVER_S = 1e6


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def hinted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server read the figures once, and then for a hint alone."""
    monkeypatch.setattr(FigureReader.__init__, "__kwdefaults__", {"interval_s": NEVER_S})
    monkeypatch.setattr(demand, "STALE_S", NEVER_S)


@pytest_asyncio.fixture
async def facade(database: str, port: int) -> AsyncIterator[Facade]:
    async with serving(database, scaler__port=port) as facade:
        yield facade


@pytest_asyncio.fixture
async def keda(facade: Facade, port: int) -> AsyncIterator[Keda]:
    async with Keda([port], DEPTH, pace=0.05) as keda:
        await known(keda)
        yield keda


async def told(keda: Keda) -> tuple[float, bool] | None:
    """Poll once; None where nothing is known, which is UNAVAILABLE to KEDA."""
    try:
        return await keda.poll((await keda.spec()).metric)
    except grpc.aio.AioRpcError as error:
        if (error.code(), reason(error)) != (grpc.StatusCode.UNAVAILABLE, "NO_FIGURES"):
            raise
        return None


async def known(keda: Keda) -> tuple[float, bool]:
    """Wait until the server has read the figures once, and return what it tells."""
    found = await eventually(lambda: told(keda), what="the first figures")
    assert found is not None
    return found


def read_again() -> None:
    """Have the figures read as at the end of an interval."""
    (figures,) = (loop for loop in running_services() if loop.name == "figures")
    figures.wake()


async def tells(keda: Keda, value: float, *, active: bool) -> None:
    async def look() -> bool:
        return await told(keda) == (value, active)

    await eventually(look, what=f"{value}, active: {active}")


@pytest.mark.usefixtures("hinted_only")
async def test_a_job_just_submitted_is_told_of_at_once(facade: Facade, keda: Keda) -> None:
    spec = await keda.spec()
    assert spec.metric.startswith("s0-jq-depth-default-")
    assert spec.target == 2.0
    await tells(keda, 0.0, active=False)
    await facade.submit()
    await tells(keda, 1.0, active=True)


async def test_queues_that_do_not_exist_are_empty_and_delayed_jobs_no_work(
    facade: Facade, keda: Keda, port: int
) -> None:
    await facade.submit(delay={"seconds": 600})
    async with Keda([port], DEPTH | {"queues": "nowhere,default"}, index=3) as both:
        assert await known(both) == (0.0, False)
        await facade.submit()
        await tells(both, 1.0, active=True)
    async with Keda([port], DEPTH | {"queues": "nowhere"}) as nowhere:
        assert await known(nowhere) == (0.0, False)
    async with Keda([port], DEPTH | {"queues": "*"}) as every:
        assert await known(every) == (1.0, True)


async def test_a_paused_queue_and_a_deleted_one_ask_for_nothing(facade: Facade, port: int) -> None:
    for name in ("paused", "gone"):
        await facade.admin.CreateQueue(admin_pb.CreateQueueRequest(name=name))
        await facade.submit(name)
    async with Keda([port], DEPTH | {"queues": "*"}) as every:
        await tells(every, 2.0, active=True)
        await facade.admin.PauseQueue(admin_pb.PauseQueueRequest(name="paused"))
        await facade.admin.DeleteQueue(admin_pb.DeleteQueueRequest(name="gone", force=True))
        await tells(every, 0.0, active=False)


@pytest.mark.usefixtures("hinted_only")
async def test_a_push_tells_the_state_at_once_and_each_change(facade: Facade, keda: Keda) -> None:
    async with aclosing(keda.push()) as states:
        assert await anext(states) is False
        changed = asyncio.create_task(anext(states))
        job_id = await facade.submit()
        async with asyncio.timeout(HANG_S):
            assert await changed is True
        await facade.jobs.CancelJob(pb.CancelJobRequest(job_id=job_id))
        read_again()
        assert await anext(states) is False
    assert keda.opened == 1


async def test_metadata_that_cannot_be_meant_are_refused_by_every_call_with_all_faults(
    facade: Facade, port: int
) -> None:
    async with Keda([port], {"queues": "a b", "activation": "-1"}) as keda:
        for call in (keda.spec(), keda.poll("s0-x"), keda._stub.IsActive(keda._ref)):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert bad_fields(caught.value) == ["targetPerReplica", "queues", "activation"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await keda._stub.StreamIsActive(keda._ref).read()
        assert "targetPerReplica: is needed" in str(caught.value.details())


@pytest.mark.usefixtures("hinted_only")
async def test_a_hundred_polls_cost_the_database_nothing(keda: Keda) -> None:
    queries: Counter[str] = Counter()
    calls: Counter[tuple[str, str]] = Counter()

    def asked(news: QueryEnded) -> None:
        queries[news.name] += 1

    def called(news: CallEnded) -> None:
        calls[news.method, news.status_code] += 1

    async def read() -> bool:
        return queries["get_queue_stats"] > 0

    metric = (await keda.spec()).metric
    stops = [QUERY_ENDED.subscribe(asked), CALL_ENDED.subscribe(called)]
    read_again()
    await eventually(read, what="a look that is counted")
    queries.clear()
    for _ in range(100):
        await keda.poll(metric)
    for stop in stops:
        stop()
    assert queries["get_queue_stats"] == 0
    for method in ("GetMetrics", "IsActive"):
        assert calls[f"ExternalScaler/{method}", "OK"] == 100


async def plain(channel: grpc.aio.Channel, method: str) -> None:
    """Call a method that may not be there."""
    await channel.unary_unary(method, request_serializer=Empty.SerializeToString)(Empty())


async def test_the_port_has_the_scaler_and_health_and_nothing_else(
    facade: Facade, port: int
) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "externalscaler.ExternalScaler"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        for method in (
            "/externalscaler.ExternalScaler/StreamMetricSpec",
            "/jobqueue.v1.AdminService/ListQueues",
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await plain(channel, method)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    async with Keda([port], DEPTH | {"queues": "q" * 70_000}) as keda:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await keda.spec()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await plain(facade.channel, "/externalscaler.ExternalScaler/IsActive")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_credentials_are_not_asked_for_and_certificates_only_when_they_shall(
    database: str, port: int, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    pair, own = authority.server(), authority.issue("keda")
    ca = authority.path.read_bytes()
    anyone = grpc.ssl_channel_credentials(ca)
    known_one = grpc.ssl_channel_credentials(ca, own.key.read_bytes(), own.cert.read_bytes())
    guarded = {**settings(pair, authority.path), "auth__api_keys": f"a:admin:{'k' * 32}"}
    for tls, let_in in (("off", (None,)), ("server", (anyone,)), ("mutual", (known_one,))):
        async with serving(database, scaler__port=port, scaler__tls=tls, **guarded):
            for credentials in (None, anyone, known_one):
                async with Keda([port], DEPTH, credentials=credentials) as keda:
                    if credentials in let_in or (tls == "server" and credentials is known_one):
                        assert (await keda.spec()).target == 2.0
                    else:
                        with pytest.raises(grpc.aio.AioRpcError) as caught:
                            await keda.spec()
                        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_renewed_certificates_are_served_on_the_scalers_port_too(
    database: str, port: int, tmp_path: Path
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    pair = authority.server()
    files = settings(pair, authority.path)
    async with serving(database, scaler__port=port, scaler__tls="server", **files):
        pair.become(other.server("next"))
        renewed = grpc.ssl_channel_credentials(other.path.read_bytes())
        async with Keda([port], DEPTH, credentials=renewed) as keda:
            assert (await keda.spec()).target == 2.0


async def test_streams_end_well_when_a_server_drains_and_go_on_at_the_other(
    database: str, tmp_path: Path, port: int
) -> None:
    ports = [port, free_port()]
    programs = [ServerProgram(database, tmp_path, scaler_port=each) for each in ports]
    try:
        for program in programs:
            program.ready()
        async with Keda(ports, DEPTH, pace=0.1) as keda:
            await known(keda)
            await both_asked(keda, programs)
            async with aclosing(keda.push()) as one, aclosing(keda.push()) as other:
                assert [await anext(one), await anext(other)] == [False, False]
                waiting = [asyncio.create_task(anext(states)) for states in (one, other)]
                programs[0].send(signal.SIGTERM)
                done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                assert [task.result() for task in done] == [False]
                assert await asyncio.to_thread(programs[0].ended) == 0
                # A later one may have met the closing port.
                assert keda.ends[0] is grpc.StatusCode.OK
                for task in left:
                    task.cancel()
                await asyncio.wait(left)
            assert await known(keda) == (0.0, False)
    finally:
        for program in programs:
            program.kill()


async def both_asked(keda: Keda, programs: Sequence[ServerProgram]) -> None:
    """Poll until every server has answered: KEDA's channel goes round them."""

    async def look() -> bool:
        await known(keda)
        pages = [await scrape(program) for program in programs]
        polls = [
            page.value(
                "jq_grpc_request_duration_seconds_count",
                method="ExternalScaler/IsActive",
                status_code="OK",
            )
            for page in pages
        ]
        return all(polls)

    await eventually(look, what="polls at both servers")


async def test_an_outage_is_unavailable_and_never_an_empty_queue(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "STALE_S", 6.0)
    postgres = EmbeddedPostgres(tmp_path / "pg", durable=False)
    await asyncio.to_thread(postgres.start)
    try:
        async with (
            serving(postgres.dsn, scaler__port=port) as facade,
            Keda([port], DEPTH) as keda,
        ):
            await known(keda)
            await facade.submit()
            await tells(keda, 1.0, active=True)
            async with aclosing(keda.push()) as states:
                assert await anext(states) is True
                silent = asyncio.create_task(anext(states))
                await asyncio.to_thread(postgres.stop)
                heard = set()

                async def refused() -> bool:
                    heard.add(await told(keda))
                    return None in heard

                await eventually(refused, what="a refusal")
                assert heard <= {None, (1.0, True)}
                await asyncio.to_thread(postgres.start)
                await known(keda)
                assert not silent.done()
                assert keda.opened == 1, "a stream is silent in an outage, and goes on"
                silent.cancel()
                await asyncio.wait({silent})
    finally:
        await asyncio.to_thread(postgres.stop)


def test_a_dry_run_tells_of_the_scaler_and_a_server_looks_at_its_port_first(
    database: str, tmp_path: Path, port: int
) -> None:
    told = dry_run(db_url=database, scaler_port=port).stdout.decode()
    assert f"scaler.port = {port}" in told
    assert f"scaler: on port {port}, plaintext" in told
    assert "scaler: off" in dry_run(db_url=database).stdout.decode()
    first = ServerProgram(database, tmp_path, scaler_port=port)
    try:
        first.ready()
        second = ServerProgram(database, tmp_path, scaler_port=port)
        assert second.ended() == 1
        assert "(scaler.port)" in second.text()
    finally:
        first.kill()
