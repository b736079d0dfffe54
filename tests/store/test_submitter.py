"""The one way in: joined flushes, two lanes, and answers that harm nobody else."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.domain.limits import MIB, Limits
from jobqueue.errors import (
    AlreadyExists,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)
from jobqueue.store import patience
from jobqueue.store.pool import Connection, Pool, create_pool
from jobqueue.submission.capacity import Capacity, size_of
from jobqueue.submission.submitter import Submitter
from tests.store.conftest import Connect
from tests.support.store import add_queue, spec, store
from tests.support.waiting import HANG_S, eventually


class Announced(list[set[str]]):
    """What was announced, call by call."""

    def __call__(self, queues: Iterable[str]) -> None:
        self.append(set(queues))


@pytest.fixture
def announced() -> Announced:
    return Announced()


@pytest_asyncio.fixture
async def submitter(db: Connection, pool: Pool, announced: Announced) -> AsyncIterator[Submitter]:
    await add_queue(db)
    one = Submitter(pool, Limits(), announced)
    yield one
    await one.close()


async def jobs(db: Connection) -> int:
    return int(await db.fetchval("SELECT count(*) FROM jobqueue.jobs"))


async def test_calls_that_come_together_are_stored_and_answered_each(
    submitter: Submitter, db: Connection
) -> None:
    specs = [spec(payload=b"%d" % n, idempotency_key=str(n) if n % 2 else None) for n in range(60)]
    answers = await asyncio.gather(*[submitter.submit(one) for one in specs])
    for one, answer in zip(specs, answers, strict=True):
        payload = await db.fetchval(
            "SELECT payload FROM jobqueue.jobs WHERE job_id = $1", answer.job_id
        )
        assert payload == one.payload


async def test_one_bad_item_of_a_flush_fails_alone(submitter: Submitter, db: Connection) -> None:
    specs = [spec(), spec(queue="nowhere"), spec(not_before=datetime.now(UTC) + timedelta(9999))]
    results = await asyncio.gather(*[submitter.submit(s) for s in specs], return_exceptions=True)
    assert isinstance(results[1], NotFound)
    assert isinstance(results[2], InvalidArgument)
    assert results[2].violations[0].field == "job.not_before"
    assert await jobs(db) == 1


async def test_an_item_the_database_chokes_on_fails_alone(
    submitter: Submitter, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueue.submission.submitter.spec_faults", lambda *_: [])
    specs = [spec(), spec(type="a\x00b"), spec()]
    results = await asyncio.gather(*[submitter.submit(s) for s in specs], return_exceptions=True)
    assert [isinstance(r, Exception) for r in results] == [False, True, False]
    assert await jobs(db) == 2


async def test_a_known_key_gives_the_same_job_or_a_refusal(submitter: Submitter) -> None:
    first = await submitter.submit(spec(idempotency_key="k"))
    again = await submitter.submit(spec(idempotency_key="k"))
    assert (again.job_id, again.existing, first.existing) == (first.job_id, True, False)
    with pytest.raises(AlreadyExists) as caught:
        await submitter.submit(spec(idempotency_key="k", payload=b"other"))
    assert caught.value.reason == "IDEMPOTENCY_KEY_REUSED"


async def test_a_held_key_hangs_only_who_asks_for_it(
    submitter: Submitter, db: Connection, another: Connect
) -> None:
    holder = await another()
    held = holder.transaction()
    await held.start()
    await store(holder, [spec(idempotency_key="held")])
    waiting = asyncio.create_task(submitter.submit(spec(idempotency_key="held")))
    others = [spec(idempotency_key=str(n)) for n in range(5)] + [spec()]
    async with asyncio.timeout(30):
        await asyncio.gather(*[submitter.submit(one) for one in others])
    assert not waiting.done()
    await held.commit()
    assert (await waiting).existing


async def test_many_callers_that_wait_for_one_held_key_leave_the_pool_to_others(
    db: Connection, database: str, another: Connect
) -> None:
    await add_queue(db)
    holder = await another()
    small = await create_pool(database, size=2, connect_timeout_s=HANG_S)
    one = Submitter(small, Limits(), Announced())
    held = holder.transaction()
    await held.start()
    await store(holder, [spec(idempotency_key="held")])
    same = spec(idempotency_key="held")
    waiting = asyncio.gather(*[one.submit(same) for _ in range(30)])
    batches = asyncio.gather(*[one.submit_many([same]) for _ in range(5)])
    try:
        async with asyncio.timeout(30):
            for n in range(10):
                await one.submit(spec(idempotency_key=f"free-{n}"))
                await one.submit_many([spec(idempotency_key=f"batch-{n}"), spec()])
                assert await small.fetchval("SELECT 1") == 1
        assert not waiting.done()
        assert not batches.done()
    finally:
        await held.commit()
    async with asyncio.timeout(60):
        answers = [*await waiting, *[answer for (answer,) in await batches]]
    assert len({answer.job_id for answer in answers}) == 1
    await one.close()
    await small.close()


async def test_a_repeated_request_gives_the_same_jobs(submitter: Submitter, db: Connection) -> None:
    singles = [await submitter.submit(spec(), request_id="r-1") for _ in range(2)]
    batches = [await submitter.submit_many([spec(), spec()], request_id="r-2") for _ in range(2)]
    assert singles[0].job_id == singles[1].job_id
    assert [s.job_id for s in batches[0]] == [s.job_id for s in batches[1]]
    assert await jobs(db) == 3


async def test_a_cancelled_caller_takes_nobody_along(submitter: Submitter, db: Connection) -> None:
    calls = [asyncio.create_task(submitter.submit(spec())) for _ in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    await submitter.close()
    assert await jobs(db) == 2


async def test_more_than_a_server_holds_is_refused_batches_too_and_the_other_kind_is_free(
    db: Connection, database: str
) -> None:
    await add_queue(db)
    small = await create_pool(database, size=1)
    one = Submitter(small, Limits(), Announced())
    one._capacity = Capacity(most_bytes=4 * MIB)
    large, more = spec(payload=b"x" * (MIB - size_of(spec(payload=b"")))), spec(payload=b"x")
    async with asyncio.timeout(HANG_S):
        async with small.acquire():  # so that all the others wait
            calls = asyncio.gather(one.submit(large), one.submit_many([large, large]))
            keyed = asyncio.create_task(one.submit(spec(idempotency_key="k")))
            await asyncio.sleep(0)
            for refused in (one.submit(more), one.submit_many([more])):
                with pytest.raises(ResourceExhausted):
                    await refused
        await asyncio.gather(calls, keyed)
        await one.submit_many([more])
    assert await jobs(db) == 5
    await one.close()
    await small.close()


@pytest.mark.parametrize(
    ("bad", "error", "field"),
    [
        (spec(queue="nowhere"), NotFound, "jobs[1].queue"),
        (spec(priority=10), InvalidArgument, "jobs[1].priority"),
        (spec(idempotency_key="k", payload=b"2"), AlreadyExists, "jobs[1].idempotency_key"),
        (spec(not_before=datetime(9000, 1, 1, tzinfo=UTC)), InvalidArgument, "jobs[1].not_before"),
    ],
    ids=["queue", "priority", "key", "not_before"],
)
async def test_a_batch_is_all_or_none_and_names_the_bad_item(
    submitter: Submitter, db: Connection, bad: object, error: type[Exception], field: str
) -> None:
    with pytest.raises(error) as caught:
        await submitter.submit_many([spec(idempotency_key="k"), bad])  # type: ignore[list-item]
    assert field in str(caught.value)
    assert await jobs(db) == 0


async def test_what_can_run_now_is_announced_after_it_is_stored(
    submitter: Submitter, db: Connection, announced: Announced
) -> None:
    await add_queue(db, "other")
    await submitter.submit(spec())
    await submitter.submit(spec(delay_s=60.0))
    await submitter.submit_many([spec(), spec(queue="other"), spec(queue="q", delay_s=9.0)])
    assert announced == [{"q"}, {"q", "other"}]


async def test_a_date_that_is_past_is_announced_and_one_to_come_is_not(
    submitter: Submitter, db: Connection, announced: Announced
) -> None:
    await add_queue(db, "other")
    past, to_come = datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(days=1)
    await submitter.submit(spec(not_before=to_come))
    await submitter.submit(spec(not_before=past))
    await submitter.submit_many([spec(queue="other", not_before=to_come)])
    await submitter.submit_many([spec(queue="other", not_before=past), spec(delay_s=60.0)])
    await submitter.close()
    assert sorted(map(sorted, announced)) == [["other"], ["q"]]


@pytest.mark.parametrize("key", [None, "k"])
async def test_nobody_waits_to_hear_whether_a_date_is_past(
    submitter: Submitter, announced: Announced, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def no_answer(*_: object) -> bool:
        asked.set()
        return await asyncio.Event().wait()

    monkeypatch.setattr("jobqueue.submission.submitter.has_past", no_answer)
    dated = spec(not_before=datetime(2020, 1, 1, tzinfo=UTC), idempotency_key=key)
    async with asyncio.timeout(HANG_S):
        for _ in range(2):
            await submitter.submit(dated)
            await submitter.submit_many([dated, spec(queue="q", not_before=dated.not_before)])
        await asked.wait()
        await submitter.close()
    assert announced == []


async def test_a_cut_connection_is_not_the_callers_concern(
    submitter: Submitter, db: Connection, pool: Pool
) -> None:
    async with pool.acquire() as connection:
        pid = connection.get_server_pid()
    await db.execute("SELECT pg_terminate_backend($1)", pid)
    await eventually(lambda: gone(db, pid))
    answer = await submitter.submit(spec())
    assert not answer.existing
    assert await jobs(db) == 1


@pytest.mark.parametrize("key", [None, "k"])
async def test_connections_that_died_without_a_word_stop_no_submission(
    submitter: Submitter,
    db: Connection,
    pool: Pool,
    key: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "FIRST_S", 1.0)
    async with AsyncExitStack() as held:
        for _ in range(4):  # more than there are tries
            connection = await held.enter_async_context(pool.acquire())
            connection._transport.pause_reading()  # type: ignore[attr-defined]
    async with asyncio.timeout(HANG_S):
        first = await submitter.submit(spec(idempotency_key=key))
        second = await submitter.submit(spec(payload=b"2", idempotency_key=key and "k2"))
        assert await pool.fetchval("SELECT 1") == 1
    assert {first.existing, second.existing} == {False}
    assert await jobs(db) == 2
    assert not [task for task in asyncio.all_tasks() if "Connection.close" in repr(task)]


async def test_a_flush_on_a_slow_database_goes_through_once(
    submitter: Submitter, db: Connection, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "FIRST_S", 0.2)
    tries: set[asyncpg.Record] = set()

    async def tried_again() -> bool:
        tries.update(await waiting_flushes(db))
        return len(tries) > 1

    async with jobs_held(another):
        calls = asyncio.gather(*[submitter.submit(spec()) for _ in range(3)])
        await eventually(tried_again, what="a second try of the flush")
    assert [answer.existing for answer in await calls] == [False] * 3
    assert await jobs(db) == 3


async def test_what_was_given_up_for_a_lock_waits_for_it_no_longer(
    submitter: Submitter, db: Connection, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "FIRST_S", 0.1)

    async def nothing_waits() -> bool:
        return not await waiting_flushes(db)

    async with jobs_held(another):
        with pytest.raises(DeadlineExceeded):
            await submitter.submit(spec())
        await eventually(nothing_waits, what="the end of all tries")
    assert await jobs(db) == 0


@asynccontextmanager
async def jobs_held(another: Connect) -> AsyncIterator[None]:
    """Hold the table of jobs against whoever writes, for as long as the block lasts."""
    holder = await another()
    async with holder.transaction():
        await holder.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        await holder.execute("LOCK TABLE jobqueue.jobs IN SHARE MODE")
        yield


async def waiting_flushes(db: Connection) -> list[asyncpg.Record]:
    """Return one row for each flush that waits for a lock; a later try is another row."""
    waiting = """
        SELECT pid, query_start FROM pg_stat_activity WHERE datname = current_database()
        AND query LIKE '%submit_jobs%' AND wait_event_type = 'Lock'
    """
    return list(await db.fetch(waiting))


async def gone(db: Connection, pid: int) -> bool:
    return not await db.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)
