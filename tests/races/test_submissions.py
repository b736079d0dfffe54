"""Submissions whose queue or key comes or goes while they wait for another one's key (R-3.3)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest
import pytest_asyncio

from jobqueue.domain.content import derived_job_ids
from jobqueue.domain.job import JobSpec, Submitted
from jobqueue.domain.limits import Limits
from jobqueue.errors import NotFound
from jobqueue.store.jobs import delete_job, job_ids
from jobqueue.store.pool import Connection, create_pool
from jobqueue.submission.submitter import Submitter
from tests.store.conftest import Connect
from tests.support.store import (
    add_queue,
    claim_one,
    delete_queue,
    settle,
    spec,
    status,
    store,
    store_items,
    submit,
    waits,
)
from tests.support.waiting import HANG_S, eventually

NAME = "submits"
HELD = spec(queue="other", idempotency_key="held")
OURS = spec(idempotency_key="a")  # keys are taken in their order: this one before the held one

Call = Coroutine[Any, Any, Sequence[Submitted]]
Way = Callable[[Submitter, Sequence[JobSpec]], Call]


@pytest_asyncio.fixture
async def submitter(database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Submitter]:
    """One that waits for a key for as long as the test holds it, however slow that is."""
    monkeypatch.setattr("jobqueue.submission.submitter.KEYED_LOCK_WAIT_S", HANG_S)
    pool = await create_pool(database, application_name=NAME, connect_timeout_s=HANG_S)
    one = Submitter(pool, Limits(), lambda _queues: None)
    yield one
    await one.close()
    await pool.close()


@pytest_asyncio.fixture
async def holder(db: Connection, another: Connect) -> Connection:
    """A connection that may hold the key; there is a queue for that."""
    await add_queue(db, "other")
    return await another()


async def meanwhile(
    db: Connection,
    holder: Connection,
    call: Call,
    happens: Callable[[], Awaitable[object]],
) -> Sequence[Submitted]:
    """Let something happen while a call waits for the held key, which then is nobody's."""
    held = holder.transaction()
    await held.start()
    await store(holder, [HELD])
    waiting = asyncio.create_task(call)
    await eventually(lambda: waits(db, NAME), what="the call waits for the key")
    await happens()
    await held.rollback()
    return await waiting


async def as_a_batch(one: Submitter, specs: Sequence[JobSpec]) -> Sequence[Submitted]:
    return await one.submit_many(specs)


async def as_joined_calls(one: Submitter, specs: Sequence[JobSpec]) -> Sequence[Submitted]:
    return await asyncio.gather(*[one.submit(each) for each in specs])


both_ways = pytest.mark.parametrize("way", [as_a_batch, as_joined_calls])


@both_ways
async def test_a_key_does_not_stay_behind_when_its_queue_goes_before_its_job_is_stored(
    db: Connection, holder: Connection, submitter: Submitter, way: Way
) -> None:
    await add_queue(db)
    with pytest.raises(NotFound):
        await meanwhile(
            db, holder, way(submitter, [OURS, HELD]), lambda: delete_queue(db, "q", force=False)
        )
    await add_queue(db)
    again = await submitter.submit(OURS)
    assert not again.existing
    assert await status(db, again.job_id) == "PENDING"


@both_ways
async def test_a_queue_that_comes_while_a_key_is_waited_for_takes_the_job_with_its_key(
    db: Connection, holder: Connection, submitter: Submitter, way: Way
) -> None:
    made = await meanwhile(db, holder, way(submitter, [OURS, HELD]), lambda: add_queue(db))
    await are_new(db, submitter, made)


@both_ways
@pytest.mark.parametrize("payload", [b"", b"other content"])
async def test_a_key_that_is_freed_while_another_one_is_waited_for_can_be_had(
    db: Connection, holder: Connection, submitter: Submitter, way: Way, payload: bytes
) -> None:
    await add_queue(db)
    (old,) = await submit(db, idempotency_key="a", payload=payload)
    await settle(db, await claim_one(db))
    made = await meanwhile(db, holder, way(submitter, [OURS, HELD]), lambda: delete_job(db, old))
    assert await status(db, old) is None
    await are_new(db, submitter, made)


async def test_a_repeated_batch_finds_what_its_first_try_commits_after_the_look(
    db: Connection, holder: Connection, submitter: Submitter
) -> None:
    known = await submitter.submit(HELD)
    batch = [HELD, spec(queue="other")]
    ids = job_ids(derived_job_ids("the-same-request", 2))
    first = holder.transaction()
    await first.start()
    await store_items(holder, list(zip(ids, batch, strict=True)), atomic=True)
    again = asyncio.create_task(submitter.submit_many(batch, "the-same-request"))
    await eventually(lambda: waits(db, NAME), what="the second try waits for the first one's id")
    await first.commit()
    assert await again == [Submitted(known.job_id, existing=True), Submitted(ids[1])]
    assert await db.fetchval("SELECT count(*) FROM jobqueue.jobs") == 2


async def are_new(db: Connection, submitter: Submitter, made: Sequence[Submitted]) -> None:
    """Both jobs are stored now, and their keys name them."""
    assert [one.existing for one in made] == [False, False]
    assert [await status(db, one.job_id) for one in made] == ["PENDING", "PENDING"]
    again = [await submitter.submit(one) for one in (OURS, HELD)]
    assert again == [Submitted(one.job_id, existing=True) for one in made]
