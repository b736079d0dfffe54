"""Lets every loop of a process fail in its first turn, while the collector runs all the time.

As a program it is the keeper of such a worker: ``python -m tests.support.stumbling PID``.
"""

import gc

from jobqueue.lease.keeper_process import DatabaseKeeper
from jobqueue.lease.keeping import KeeperProcess, Pipe, run_keeper
from jobqueue.lease.messages import Begin
from jobqueue.remote.keeper_process import make_keeper
from jobqueue.runtime.log import get_logger
from jobqueue.runtime.service import Service

STUMBLED, STOOD_UP = "stumbled over a stone", "stood up again"

_log = get_logger(__name__)
_start = Service.start


async def _start_to_stumble(service: Service) -> None:
    """Start a loop whose first turn raises; it tells of the first one that goes well."""
    turn, left = service.turn, [STOOD_UP, STUMBLED]

    async def stumble() -> float | None:
        gc.collect()
        if STUMBLED in left:
            raise ValueError(left.pop())
        wait = await turn()  # it may fail by itself: a slow machine has outages of its own
        if left:
            _log.warning(left.pop(), loop=service.name)  # of a keeper nothing less is heard
        return wait

    service.turn = stumble  # type: ignore[method-assign]
    await _start(service)


def make(begin: Begin, pipe: Pipe, parent: int) -> KeeperProcess:
    """Return the keeper that the worker needs: of the two sources one is an address in JSON."""
    kind = make_keeper if begin.source.startswith("{") else DatabaseKeeper
    return kind(begin, pipe, parent)


def stumble() -> None:
    """Have it happen to all loops of this process."""
    Service.start = _start_to_stumble  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    stumble()
    run_keeper(make)
