from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from jobqueue.rpc.call_context import CallContext
from jobqueue.rpc.handlers import Handler, behavior_of

TRACE = (("traceparent", "00-1"),)


class Around:
    """Records what calls were surrounded with, and whether one is inside."""

    def __init__(self) -> None:
        self.entered: list[Sequence[tuple[str, str | bytes]]] = []
        self.inside = False

    @contextmanager
    def __call__(self, metadata: Sequence[tuple[str, str | bytes]]) -> Iterator[None]:
        self.entered.append(metadata)
        self.inside = True
        try:
            yield
        finally:
            self.inside = False


@pytest.fixture
def around() -> Around:
    return Around()


def surrounded(around: Around, handler: Handler) -> Handler:
    return CallContext(around).around(handler, "/x")


def context(metadata: object) -> Any:
    return SimpleNamespace(invocation_metadata=lambda: metadata)


@pytest.mark.parametrize(("metadata", "seen"), [(TRACE, TRACE), (None, ())])
async def test_a_call_runs_inside_the_context_of_its_metadata(
    around: Around, metadata: object, seen: object
) -> None:
    async def method(request: str, _context: object) -> tuple[str, bool]:
        return request, around.inside

    handler = surrounded(around, grpc.unary_unary_rpc_method_handler(method))
    assert await behavior_of(handler)("hello", context(metadata)) == ("hello", True)
    assert (around.entered, around.inside) == ([seen], False)


async def test_the_context_ends_with_a_call_that_fails(around: Around) -> None:
    async def method(_request: str, _context: object) -> None:
        raise ValueError("no")

    handler = surrounded(around, grpc.unary_unary_rpc_method_handler(method))
    with pytest.raises(ValueError, match="no"):
        await behavior_of(handler)("hello", context(TRACE))
    assert not around.inside


@pytest.mark.parametrize(
    "handler",
    [
        grpc.unary_stream_rpc_method_handler(lambda *_: iter(())),
        grpc.stream_unary_rpc_method_handler(lambda *_: None),
        grpc.stream_stream_rpc_method_handler(lambda *_: iter(())),
    ],
)
def test_streams_are_left_alone(around: Around, handler: Handler) -> None:
    assert surrounded(around, handler) is handler
