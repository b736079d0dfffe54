"""Looking for leases that nobody knows reads a whole table, so it needs a reason (R-4.2)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jobqueue.lease.backing import DatabaseBacking
from jobqueue.lease.book import Book
from jobqueue.lease.duties import Presence, Reconciler
from jobqueue.lease.messages import Message, Unknown
from jobqueue.store.pool import Connection
from tests.support.leases import QUICK
from tests.support.store import WORKER, add_queue, claim, status, submit
from tests.support.workers import facts


@pytest_asyncio.fixture
async def backing(database: str) -> AsyncIterator[DatabaseBacking]:
    opened = DatabaseBacking(database, QUICK, facts(), lambda: None)
    yield opened
    await opened.close()


@pytest.mark.parametrize("strangers", [0, 2])
async def test_it_looks_again_soon_only_while_there_are_strangers(
    backing: DatabaseBacking, db: Connection, strangers: int
) -> None:
    told: list[Message] = []
    presence = Presence(
        backing, facts(), told.append, interval_s=60.0, worker=WORKER, draining=False
    )
    await add_queue(db)
    await submit(db, 2)
    await claim(db, strangers)
    await db.execute("UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '1 min'")
    again_s = await Reconciler(backing.hot, Book(QUICK), presence, told.append).turn()
    assert again_s is not None
    assert (again_s <= 30) == bool(strangers)
    assert (again_s >= 600) != bool(strangers)
    assert [type(message) for message in told] == [Unknown] * bool(strangers)


async def test_only_what_the_worker_disowned_is_handed_back(
    backing: DatabaseBacking, db: Connection
) -> None:
    presence = Presence(
        backing, facts(), lambda _: None, interval_s=60.0, worker=WORKER, draining=False
    )
    await add_queue(db)
    await submit(db, 2)
    disowned, arriving = await claim(db, 2)
    await db.execute("UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '1 min'")
    reconciler = Reconciler(backing.hot, Book(QUICK), presence, lambda _: None)
    await reconciler.turn()
    await reconciler.hand_back([disowned.lease])
    assert await status(db, disowned.job_id) == "PENDING"
    assert await status(db, arriving.job_id) == "RUNNING"
