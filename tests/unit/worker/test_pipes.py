"""The pipes of programs, on both event loops that a worker may have."""

import asyncio
import errno
import io
import os
from collections.abc import Callable, Coroutine
from typing import IO, Any, cast

import pytest
import uvloop

from jobqueue.worker.pipes import Inflow, Outflow
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, uvloop.new_event_loop])
MUCH = os.urandom(1_000_000)

LoopOf = Callable[[], asyncio.AbstractEventLoop]


def run(loop_of: LoopOf, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop_of) as runner:
        runner.run(work)


def test_what_flows_in_at_one_end_comes_out_at_the_other(loop_of: LoopOf) -> None:
    async def flow() -> None:
        kept = bytearray()
        reading, writing = os.pipe()
        inflow = Inflow(os.fdopen(reading, "rb"), kept.extend)
        Outflow(os.fdopen(writing, "wb"), MUCH)
        async with asyncio.timeout(30):
            await inflow.ended
        assert kept == MUCH
        assert is_closed(reading)
        assert is_closed(writing)

    run(loop_of, flow())


@pytest.mark.parametrize("much", [b"x", MUCH])
def test_a_reader_that_has_left_ends_the_flow(loop_of: LoopOf, much: bytes) -> None:
    async def flow() -> None:
        reading, writing = os.pipe()
        os.close(reading)
        Outflow(os.fdopen(writing, "wb"), much)
        assert is_closed(writing)

    run(loop_of, flow())


def test_a_reader_that_leaves_in_the_midst_ends_the_flow(loop_of: LoopOf) -> None:
    async def flow() -> None:
        reading, writing = os.pipe()
        Outflow(os.fdopen(writing, "wb"), MUCH)
        assert not is_closed(writing)
        os.close(reading)

        async def ended() -> bool:
            return is_closed(writing)

        await eventually(ended, what="the end of a flow that nobody reads")

    run(loop_of, flow())


def test_a_flow_that_is_closed_is_left_alone(loop_of: LoopOf) -> None:
    async def flow() -> None:
        kept = bytearray()
        (reading, theirs), (other, writing) = os.pipe(), os.pipe()
        inflow = Inflow(os.fdopen(reading, "rb"), kept.extend)
        outflow = Outflow(os.fdopen(writing, "wb"), MUCH)
        os.write(theirs, b"too late")
        for each in (inflow, outflow, inflow, outflow):
            each.close()
        await inflow.ended
        assert kept == b""
        assert is_closed(reading)
        assert is_closed(writing)
        os.close(theirs)
        os.close(other)

    run(loop_of, flow())


class Probe(io.FileIO):
    """Notes at each close what had become of its number before."""

    def __init__(self, number: int, mode: str) -> None:
        super().__init__(number, mode)
        self.found_open: list[bool] = []

    def close(self) -> None:
        if not self.closed:
            self.found_open.append(not is_closed(self.fileno()))
        super().close()


def test_a_number_is_closed_once_or_it_may_be_anothers(loop_of: LoopOf) -> None:
    async def flow() -> None:
        reading, writing = os.pipe()
        ours, theirs = Probe(reading, "rb"), Probe(writing, "wb")
        inflow = Inflow(cast("IO[bytes]", ours), bytearray().extend)
        outflow = Outflow(cast("IO[bytes]", theirs), MUCH)
        await inflow.ended
        for each in (inflow, outflow):
            each.close()
        assert (ours.found_open, theirs.found_open) == ([True], [True])

    run(loop_of, flow())


def is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError as error:
        return error.errno == errno.EBADF
    return False
