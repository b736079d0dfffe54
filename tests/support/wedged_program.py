"""`jq-server` or `jq-worker` as it is, and one loop in it that never ends a turn.

Usage: ``python -m tests.support.wedged_program server|worker|claims FLAGS``. With ``claims`` it is
the loop that claims; with the others one that the programs do not have.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from jobqueue.cli import server, worker
from jobqueue.lease import keeper
from jobqueue.runtime.service import Service
from jobqueue.wiring import serve
from jobqueue.wiring import worker as wiring
from jobqueue.worker.claiming import Claiming

BOUND_S = 0.5


class Wedged(Service):
    """Waits in its first turn for ever."""

    def __init__(self) -> None:
        super().__init__("wedged", interval_s=BOUND_S, bound_s=BOUND_S)

    async def turn(self) -> None:
        await asyncio.Event().wait()


def plant(module: ModuleType, name: str) -> None:
    """Have the function that runs the program start the wedged loop before all others."""
    run: Callable[..., Awaitable[Any]] = getattr(module, name)

    async def planted(*args: Any, **kwargs: Any) -> Any:
        wedged = Wedged()  # kept to the end: a task that nobody refers to may vanish
        await wedged.start()
        return await run(*args, **kwargs)

    setattr(module, name, planted)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    if program == "server":
        plant(serve, "serve")
        server.main()
    elif program == "worker":
        plant(wiring, "work")
        worker.main()
    else:
        keeper.CLAIMS_LIMIT_S = 1.0
        Claiming.turn = Wedged.turn  # type: ignore[method-assign, assignment]
        worker.main()
