"""Runs a program on a loop on which foreign code runs too."""

import asyncio
import os
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from jobqueue.runtime.original import original

T = TypeVar("T")


def run_among_guests(
    main: Coroutine[Any, Any, T],
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    told: Callable[[BaseException], None],
) -> T:
    """Run ``main`` to its end on a loop of its own, and return what it returns.

    A task that raises SystemExit, and whoever stops the loop, mean their own end. They would end
    the program, and it would look as if that had been asked for: so they are ``told``, and the
    loop goes on. Raises what ``main`` raises, and what leaves the loop unable to go on.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, RuntimeError) as error:
                # One that a signal's handler raised while uvloop began to run leaves it half begun.
                if task.done() or loop.is_running():
                    raise
                told(error)


@types.coroutine
def in_one_process(work: Awaitable[T]) -> Generator[Any, None, T]:
    """Await ``work``. A copy of the process that it makes by ``fork`` ends where it would wait.

    Or where it would return, with code 0. The copy shares our sockets, and what the loop watches:
    one more turn of its loop would take from ours what comes to us.
    """
    steps = work if isinstance(work, types.CoroutineType) else _awaited(work)
    here = original()
    step: Callable[[Any], object] = steps.send
    given: object = None
    while True:
        try:
            awaited = step(given)
        except StopIteration as end:
            returned: T = end.value
            return returned
        finally:
            if not here():
                os._exit(0)
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001 - a cancellation is for the work
            step, given = steps.throw, error
        else:
            step, given = steps.send, None


async def _awaited(work: Awaitable[T]) -> T:
    return await work
