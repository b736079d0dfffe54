"""API keys, tokens and roles on a real server: every method asks, health does not (R-9.1)."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
import pytest_asyncio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import Default
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.config.api_keys import Role
from jobqueue.errors import PermissionDenied, Unauthenticated, Unavailable
from jobqueue.rpc import auth
from jobqueue.rpc.access import needed_role
from jobqueue.rpc.server import SERVICES
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as pb
from tests.support.certificates import Authority, settings
from tests.support.facade import Facade, reason, serving
from tests.support.waiting import HANG_S

SECRET = "a secret of thirty-two bytes, or so"
KEYS = {role: f"{role}-key-0123456789" for role in Role}
ENTRIES = ",".join(f"{role}:{role}:{key}" for role, key in KEYS.items())
METHODS: list[MethodDescriptor] = [
    method for name in SERVICES for method in Default().FindServiceByName(name).methods
]


@pytest_asyncio.fixture
async def facade(database: str) -> AsyncIterator[Facade]:
    async with serving(database, auth__api_keys=ENTRIES, auth__jwt_secret=SECRET) as facade:
        yield facade


def client(facade: Facade, credential: str | None) -> AsyncClient:
    return AsyncClient(f"127.0.0.1:{facade.port}", api_key=credential)


def token(lifetime_s: float = 600.0, **claims: object) -> str:
    content = {"exp": time.time() + lifetime_s, "sub": "alice", "roles": ["submit"], **claims}
    return jwt.encode(content, SECRET, algorithm="HS256")


async def code_of(facade: Facade, method: MethodDescriptor, *headers: tuple[str, str]) -> str:
    """Call a method with an empty request, and return the name of the code it ends with."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    channel: Any = facade.channel
    try:
        if method.server_streaming:
            stream = channel.unary_stream(path)(b"", metadata=headers, timeout=HANG_S)
            await stream.read()
            stream.cancel()
        else:
            await channel.unary_unary(path)(b"", metadata=headers, timeout=HANG_S)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def test_every_method_is_refused_without_valid_credentials(facade: Facade) -> None:
    wrong = ("authorization", "Bearer not-a-key-0123456789")
    for headers in ((), (wrong,)):
        codes = {method.name: await code_of(facade, method, *headers) for method in METHODS}
        assert {name for name, code in codes.items() if code != "UNAUTHENTICATED"} == set()


async def test_each_role_may_call_what_it_covers_and_nothing_else(facade: Facade) -> None:
    for role, key in KEYS.items():
        for method in METHODS:
            path = f"/{method.containing_service.full_name}/{method.name}"
            needed = needed_role(path)
            assert needed is not None
            code = await code_of(facade, method, ("x-api-key", key))
            assert (code == "PERMISSION_DENIED") is not role.covers(needed), (role, path, code)
            assert code != "UNAUTHENTICATED"


async def test_a_refusal_names_the_role_that_is_needed(facade: Facade) -> None:
    async with client(facade, KEYS[Role.SUBMIT]) as app:
        with pytest.raises(PermissionDenied, match="needs the role admin; submit has submit") as no:
            await app.create_queue("mine")
    assert no.value.reason == "ROLE_MISSING"


async def test_an_application_follows_its_job_with_the_role_submit(facade: Facade) -> None:
    async with client(facade, KEYS[Role.SUBMIT]) as app:
        made = await app.submit(JobSpec("default"))
        watching = app.watch(made.job_id)
        assert (await anext(watching)).status == "PENDING"
        await app.cancel(made.job_id)
        assert [job.status async for job in watching][-1] == "DEAD_LETTERED"
        with pytest.raises(PermissionDenied):
            await app.delete(made.job_id)


async def test_a_token_is_as_good_as_a_key_until_it_expires(facade: Facade) -> None:
    async with client(facade, token()) as app:
        await app.submit(JobSpec("default"))
        with pytest.raises(PermissionDenied, match="alice has submit"):
            await app.pause_queue("default")
    async with client(facade, token(roles=["admin"])) as admin:
        await admin.create_queue("mine")
    async with client(facade, token(lifetime_s=-60)) as late:
        with pytest.raises(Unauthenticated, match="the token has expired") as caught:
            await late.submit(JobSpec("default"))
    assert caught.value.reason == "TOKEN_EXPIRED"


async def test_a_stream_runs_on_when_the_token_that_opened_it_has_expired(
    facade: Facade, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client(facade, token()) as follower:
        made = await follower.submit(JobSpec("default"))
        watch: Any = facade.jobs.WatchJob(
            pb.WatchJobRequest(job_id=str(made.job_id)),
            metadata=[("authorization", f"Bearer {token()}")],
        )
        await watch.read()
        monkeypatch.setattr(auth, "LEEWAY_S", -3600)  # as if an hour had passed
        with pytest.raises(Unauthenticated, match="expired"):
            await follower.get(made.job_id)
    async with client(facade, KEYS[Role.OPERATE]) as operator:
        await operator.cancel(made.job_id)
    assert (await watch.read()).job.status == job_pb2.JOB_STATUS_DEAD_LETTERED


async def test_health_asks_for_nothing(facade: Facade) -> None:
    stub = health_pb2_grpc.HealthStub(facade.channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_reflection_needs_a_role(facade: Facade) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(facade.channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.ServerReflectionInfo(iter([request])).read()
    assert reason(caught.value) == "CREDENTIALS_MISSING"
    metadata = [("x-api-key", KEYS[Role.SUBMIT])]
    answer = await stub.ServerReflectionInfo(iter([request]), metadata=metadata).read()
    assert answer.list_services_response.service


async def test_a_refused_call_is_logged_with_its_cause_and_without_its_key(
    facade: Facade, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(facade, "wrong-key-0123456789") as stranger:
        for _ in range(3):
            with pytest.raises(Unauthenticated):
                await stranger.list_queues()
    lines = [r.__dict__ for r in caplog.records if r.getMessage() == "a call was refused"]
    (context,) = [line["context"] for line in lines]
    assert context["reason"] == "CREDENTIALS_INVALID"
    assert context["method"] == "/jobqueue.v1.AdminService/ListQueues"
    assert "127.0.0.1" in context["peer"]
    assert "wrong-key" not in caplog.text + str(lines)


async def test_with_both_a_certificate_and_a_key_are_needed(database: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.tls(authority.issue("client"))
    flags = settings(authority.server(), authority.path)
    async with serving(database, auth__api_keys=ENTRIES, **flags) as facade:
        address = f"localhost:{facade.port}"
        async with AsyncClient(address, tls=tls, api_key=KEYS[Role.OPERATE]) as both:
            assert (await both.list_queues())[0].name == "default"
        async with AsyncClient(address, tls=tls) as known:
            with pytest.raises(Unauthenticated):
                await known.list_queues()
        async with AsyncClient(address, tls=authority.tls(), api_key=KEYS[Role.ADMIN]) as unknown:
            with pytest.raises(Unavailable):
                await unknown.delete_queue("default")
