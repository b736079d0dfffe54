"""Runs a program on a loop on which foreign code runs too."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_among_guests(
    main: Coroutine[Any, Any, T],
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    told: Callable[[BaseException], None],
) -> T:
    """Run ``main`` to its end on a loop of its own, and return what it returns.

    A task that raises SystemExit, and whoever stops the loop, mean their own end. They would end
    the program, and it would look as if that had been asked for: so they are ``told``, and the
    loop goes on.
    """
    with asyncio.Runner(loop_factory=new_loop) as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, RuntimeError) as error:
                if task.done():
                    raise
                told(error)
