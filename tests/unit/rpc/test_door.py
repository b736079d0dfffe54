"""What the door answers gRPC with, without a server around it."""

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from jobqueue.config.api_keys import ApiKey, Role
from jobqueue.config.secret import Secret
from jobqueue.errors import Unauthenticated
from jobqueue.rpc.auth import Authenticator
from jobqueue.rpc.door import Door
from jobqueue.rpc.gate import Gate
from jobqueue.rpc.gatekeeper import Gatekeeper
from jobqueue.rpc.guard import Guard
from jobqueue.rpc.handlers import Around, Handler, behavior_of, with_behavior

GET, HEALTH = "/jobqueue.v1.JobService/GetJob", "/grpc.health.v1.Health/Check"
KEY = "a-key-of-the-tests"


def offered(method: str) -> Handler:
    async def answer(_request: object, _context: object) -> list[str]:
        return [method]

    return grpc.unary_unary_rpc_method_handler(answer)


def named(name: str, built: list[str]) -> Around:
    """Surround a method with something that adds its name to the answer."""

    def around(handler: Handler, method: str) -> Handler:
        built.append(f"{name} {method}")
        behavior: Callable[..., Any] = behavior_of(handler)

        async def surrounded(request: object, context: object) -> list[str]:
            return [name, *await behavior(request, context)]

        return with_behavior(handler, surrounded)

    return around


def door(*inner: Around, gatekeeper: Gatekeeper | None = None) -> Door:
    made = Door(Guard(Gate()), gatekeeper, inner)
    for method in (GET, HEALTH):
        service, _, name = method[1:].rpartition("/")
        handlers = {name: offered(method)}
        made.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    return made


def found(made: Door, method: str, key: str = "") -> Any:
    metadata = (("x-api-key", key),) if key else ()
    call: Any = SimpleNamespace(method=method, invocation_metadata=metadata)
    return made.service(call)


async def answer(handler: Any) -> object:
    context = SimpleNamespace(peer=lambda: "tests", time_remaining=lambda: None)
    return await behavior_of(handler)(b"", context)


async def requests() -> AsyncIterator[bytes]:
    yield b""


async def test_what_surrounds_a_method_is_built_once_and_the_first_is_outermost() -> None:
    built: list[str] = []
    made = door(named("outer", built), named("inner", built))
    assert [await answer(found(made, GET)) for _ in range(2)] == [["outer", "inner", GET]] * 2
    assert built == [f"inner {GET}", f"outer {GET}"]


async def test_health_is_surrounded_by_nothing() -> None:
    made = door(named("outer", []), gatekeeper=keeper())
    handler = found(made, HEALTH)
    assert handler.request_streaming, "a stranger's request must not be waited for"
    assert await behavior_of(handler)(requests(), SimpleNamespace()) == [HEALTH]


def test_a_name_that_is_no_method_is_not_remembered() -> None:
    made = door()
    assert found(made, "/jobqueue.v1.JobService/Nothing") is None
    later = {"Nothing": offered("now")}
    made.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("jobqueue.v1.JobService", later)]
    )
    assert found(made, "/jobqueue.v1.JobService/Nothing") is not None


async def test_each_call_is_judged_by_its_own_credentials() -> None:
    made = door(gatekeeper=keeper())
    assert found(made, GET).request_streaming
    assert await answer(found(made, GET, KEY)) == [GET]
    refused = found(made, GET, "another key")
    assert refused.request_streaming, "a refused request must not be read"


def test_a_refusal_says_why() -> None:
    call: Any = SimpleNamespace(method=GET, invocation_metadata=())
    refused = keeper().refusal(offered(GET), call)
    with pytest.raises(Unauthenticated):
        behavior_of(refused)(b"", SimpleNamespace(peer=lambda: "tests")).send(None)  # type: ignore[arg-type]


def keeper() -> Gatekeeper:
    key = ApiKey("tests", frozenset({Role.SUBMIT}), Secret(KEY))
    return Gatekeeper(Authenticator([key], None))
