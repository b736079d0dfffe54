"""A keeper that lives and says nothing: stopped by a signal, a debugger, a disk that hangs."""

import os
import signal

import pytest

from jobqueue.domain.outcome import Completed
from jobqueue.lease.direct import DirectLeases
from jobqueue.lease.interface import LeaseGone
from jobqueue.lease.messages import Here, Message
from jobqueue.store.pool import Connection
from tests.support.leases import SHORT, Heard, is_renewed, open_leases, take_at_last, take_one
from tests.support.programs import is_stopped
from tests.support.settling import settled
from tests.support.store import submit
from tests.support.waiting import eventually


async def stop_keeper(leases: DirectLeases) -> int:
    """Stop it, once it is up and at work, and return which one it is."""
    pid = leases._keeper.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    async def stands_still() -> bool:
        return is_stopped(pid)

    await eventually(stands_still, what="a keeper that stands still")
    return pid


async def replaced(leases: DirectLeases, old: int) -> None:
    """Wait for another keeper."""

    async def another() -> bool:
        return leases._keeper.pid not in (None, old)

    await eventually(another, what="another keeper")


async def test_a_keeper_that_was_stopped_is_replaced_and_no_lease_is_lost(
    database: str, db: Connection
) -> None:
    await submit(db)
    async with open_leases(database) as leases:
        heard, job = Heard(leases), await take_one(leases)
        await replaced(leases, await stop_keeper(leases))
        await is_renewed(db, job)
        assert heard.news == []
        assert await settled(leases, job, Completed())


async def test_a_lease_that_ends_while_the_keeper_is_stopped_is_given_up_without_it(
    database: str, db: Connection
) -> None:
    await submit(db)
    async with open_leases(database, settings=SHORT) as leases:
        keepers: list[int | None] = []
        leases.on_news(lambda _news: keepers.append(leases._keeper.pid))
        heard, job = Heard(leases), await take_at_last(leases)
        stopped = await stop_keeper(leases)
        await heard.hears(LeaseGone(job.lease))
        assert keepers == [stopped], "nobody else has told"
        await replaced(leases, stopped)


async def test_a_keeper_that_has_nothing_to_say_answers_when_it_is_asked(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Message] = []
    async with open_leases(database, settings=SHORT) as leases:
        first = leases._keeper.pid
        monkeypatch.setattr(leases._keeper, "_hear", said.append)

        async def answered() -> bool:
            return said.count(Here()) >= 3

        await eventually(answered, what="three answers")
        assert leases._keeper.pid == first
