"""What guests of a loop may do to it, and what it does to the program: nothing."""

import asyncio
import sys
from collections.abc import Callable

import pytest
import uvloop

from jobqueue.runtime.guests import run_among_guests

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


@pytest.mark.parametrize("error", [SystemExit, RuntimeError, ValueError])
def test_what_the_program_itself_raises_ends_it(error: type[BaseException]) -> None:
    async def main() -> None:
        raise error

    with pytest.raises(error):
        run_among_guests(main(), asyncio.new_event_loop, lambda _: pytest.fail("told"))
