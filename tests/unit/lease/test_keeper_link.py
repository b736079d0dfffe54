"""The start and the end of a keeper process, on both event loops that a worker may have."""

import asyncio
import gc
import itertools
import os
import resource
import stat
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.worker import WorkerCommand
from jobqueue.lease.keeper import Keeper
from jobqueue.lease.keeper_link import KeeperLink
from jobqueue.lease.settings import LeaseSettings
from tests.support.waiting import eventually
from tests.support.workers import facts

pytestmark = pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, uvloop.new_event_loop])

LoopOf = Callable[[], asyncio.AbstractEventLoop]


class Deaf:
    """Nobody to tell."""

    def renewed(self, jobs: Sequence[LeasedJob]) -> None:
        pass

    def lost(self, leases: Sequence[Lease], why: str) -> None:
        pass

    def cancelled(self, leases: Sequence[Lease]) -> None:
        pass

    def forgotten(self) -> None:
        """It never is."""

    def commanded(self, command: WorkerCommand) -> None:
        pass

    def disowned(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        return leases


def run(loop_of: LoopOf, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop_of) as runner:
        runner.run(work)


def links() -> list[int]:
    """Return the sockets and pipes of this process; other files a loop may open for itself."""
    gc.collect()
    opened = {fd: os.fstat(fd).st_mode for fd in range(256) if is_open(fd)}
    return [fd for fd, mode in opened.items() if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)]


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@contextmanager
def spare(count: int) -> Iterator[None]:
    """Leave this process so many descriptors that it may still open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [fd for fd in range(256) if not is_open(fd)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[count], hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_keeper_that_cannot_be_started_for_want_of_descriptors_leaves_none_open(
    loop_of: LoopOf,
) -> None:
    async def start() -> None:
        keeper = Keeper("no.such.module", "", LeaseSettings(), facts(), Deaf())
        before = set(links())

        async def all_closed() -> bool:
            return set(links()) <= before

        for count in itertools.count():
            with spare(count):
                try:
                    await keeper.turn()
                except OSError:
                    started = False
                except RuntimeError:  # there is no such module
                    started = True
            await eventually(all_closed, what=f"the end of a start with {count} to spare")
            if started:
                break
        assert count > 3

    run(loop_of, start())


def test_a_keeper_ends_when_it_is_told_to_and_says_its_last_words(loop_of: LoopOf) -> None:
    code = "import os; os.read(0, 9); os.write(0, b'last'); raise SystemExit(3)"

    async def end() -> None:
        link = await KeeperLink.open([sys.executable, "-c", code])
        link.tell_to_end()
        link.tell_to_end()
        link.write(b"too late")
        assert await link.read() == b"last"
        assert await link.read() == b""
        assert await link.ended() == 3
        link.close()

    run(loop_of, end())


def test_a_keeper_that_was_killed_with_something_unread_has_said_all(loop_of: LoopOf) -> None:
    async def end() -> None:
        link = await KeeperLink.open([sys.executable, "-c", "import time; time.sleep(600)"])
        link.write(b"never read")
        await asyncio.sleep(0)
        link.kill()
        assert await link.read() == b""
        assert await link.ended() == -9
        link.close()

    run(loop_of, end())
