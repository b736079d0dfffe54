"""What guests of a loop may do to it, and what it does to the program: nothing."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
import uvloop

from jobqueue.runtime.guests import in_one_process, run_among_guests
from tests.support.waiting import HANG_S

# The pair of sockets is the first that uvloop makes when it starts to run.
BREAKS_ITS_LOOP = """
import socket, sys
from jobqueue.runtime.guests import run_among_guests

pair = socket.socketpair

def exits(*args):
    socket.socketpair = pair
    sys.exit(0)

socket.socketpair = exits
import uvloop

async def work():
    print("worked")

run_among_guests(work(), uvloop.new_event_loop, print)
"""

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


async def exits() -> None:
    sys.exit(0)


async def stops() -> None:
    asyncio.get_running_loop().stop()


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_program_goes_on_when_a_task_exits_or_stops_its_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    told: list[type] = []

    async def main() -> str:
        bystander = asyncio.create_task(asyncio.sleep(0.01, "done"))
        for guest in (exits, stops):
            ended = asyncio.create_task(guest())
            await asyncio.wait([ended])
            ended.cancelled() or ended.exception()  # looked at: nobody is to hear of it again
        return await bystander

    result = run_among_guests(main(), new_loop, lambda error: told.append(type(error)))
    assert (result, told) == ("done", [SystemExit, RuntimeError])


def test_a_loop_that_was_broken_while_it_started_is_given_up() -> None:
    """A handler of signals of ours met it there: the program spun round it for ever."""
    ended = subprocess.run(
        [sys.executable, "-c", BREAKS_ITS_LOOP],
        timeout=HANG_S,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Cannot close a running event loop" in ended.stderr


@pytest.mark.parametrize("error", [SystemExit, RuntimeError, ValueError])
def test_what_the_program_itself_raises_ends_it(error: type[BaseException]) -> None:
    async def main() -> None:
        raise error

    with pytest.raises(error):
        run_among_guests(main(), asyncio.new_event_loop, lambda _: pytest.fail("told"))


async def waits_and_is_cancelled() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "cancelled"
    raise AssertionError


class Later:
    """Something to await that is no coroutine."""

    def __await__(self) -> Generator[Any, None, str]:
        yield from asyncio.sleep(0).__await__()
        return "later"


async def test_work_in_one_process_returns_raises_and_is_cancelled_as_without() -> None:
    assert await in_one_process(asyncio.sleep(0.01, "slept")) == "slept"
    assert await in_one_process(Later()) == "later"
    task = asyncio.ensure_future(in_one_process(waits_and_is_cancelled()))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "cancelled"
    with pytest.raises(ZeroDivisionError):
        await in_one_process(fails())


async def fails() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError


async def test_a_copy_ends_where_it_would_wait_return_or_raise() -> None:
    async def forks(then: Callable[[], Awaitable[object]]) -> int:
        if copy := os.fork():
            return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])  # noqa: ASYNC222 - it ends at once
        await then()
        return 1

    async def returns() -> None: ...

    for then in (returns, waits_and_is_cancelled, fails):
        assert await in_one_process(forks(then)) == 0
