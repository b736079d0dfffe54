"""Looking for leases that nobody knows reads a whole table, so it needs a reason (R-4.2)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jobqueue.lease.backing import DatabaseBacking
from jobqueue.lease.book import Book
from jobqueue.lease.messages import Message, Unknown
from jobqueue.store.pool import Connection
from tests.support.leases import QUICK, presence_on, reconciler
from tests.support.store import add_queue, claim, status, submit
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
    presence = presence_on(backing, told.append)
    await add_queue(db)
    await submit(db, 2)
    await claim(db, strangers)
    await db.execute("UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '1 min'")
    again_s = await reconciler(backing, presence, told.append).turn()
    assert again_s is not None
    assert (again_s <= 30) == bool(strangers)
    assert (again_s >= 600) != bool(strangers)
    assert [type(message) for message in told] == [Unknown] * bool(strangers)


async def test_only_what_the_worker_disowned_is_handed_back(
    backing: DatabaseBacking, db: Connection
) -> None:
    presence = presence_on(backing, lambda _: None)
    await add_queue(db)
    await submit(db, 2)
    disowned, arriving = await claim(db, 2)
    await db.execute("UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '1 min'")
    looking = reconciler(backing, presence, lambda _: None)
    await looking.turn()
    await looking.hand_back([disowned.lease])
    assert await status(db, disowned.job_id) == "PENDING"
    assert await status(db, arriving.job_id) == "RUNNING"


async def test_what_a_claim_brought_to_a_worker_that_stands_still_is_renewed_until_it_answers(
    backing: DatabaseBacking, db: Connection
) -> None:
    told: list[Message] = []
    still, renewals = [True], []
    book = Book(QUICK)
    looking = reconciler(
        backing,
        presence_on(backing, told.append),
        told.append,
        book,
        is_still=lambda: still[0],
        renew_soon=lambda: renewals.append(book.due()),
    )
    await add_queue(db)
    await submit(db)
    (brought,) = await claim(db)
    await looking.turn()
    assert renewals == [[brought.lease]]
    assert told == [], "it cannot answer"
    # It goes on, and does not know of the claim.
    still[0] = False
    await db.execute("UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '1 min'")
    await looking.turn()
    assert told == [Unknown((brought.lease,))]
    await looking.hand_back([brought.lease])
    assert await status(db, brought.job_id) == "PENDING"
    assert len(book) == 0, "nobody renews it any more"
