"""Retention of DONE jobs: bounded pages, nothing half removed (R-3.17)."""

from jobqueue.domain.outcome import Refused
from jobqueue.store.jobs import get_job
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import prune_jobs
from tests.store.conftest import Connect
from tests.support.store import FAILURE, add_queue, claim, settle, spec, store, submit


async def test_only_done_jobs_past_their_retention_go_with_all_that_is_theirs(
    db: Connection,
) -> None:
    await add_queue(db)
    ids = [(await submit(db, idempotency_key=str(n)))[0] for n in range(5)]
    jobs = await claim(db, 5)
    for job, outcome in zip(jobs[:4], [None, None, Refused("no"), FAILURE], strict=True):
        await settle(db, job, outcome)
    await db.execute(
        "UPDATE jobqueue.finished SET finished_at = now() - interval '10 s' WHERE id <> $1",
        jobs[1].lease.job,
    )
    pruned = await prune_jobs(db, after=0, retention_s=5.0, limit=100)
    assert (pruned.removed, pruned.next_job) == (1, None)
    assert [await get_job(db, job_id) is None for job_id in ids] == [True, *[False] * 4]
    assert await db.fetchval("SELECT count(*) FROM jobqueue.idempotency_keys") == 4
    (again,) = await store(db, [spec(idempotency_key="0", payload=b"other")])
    assert again.outcome == "NEW"


async def test_pages_walk_past_jobs_that_stay(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 10)
    for n, job in enumerate(await claim(db, 10)):
        await settle(db, job, None if n % 2 else Refused("no"))
    removed, after, pages = 0, 0, 0
    while True:
        page = await prune_jobs(db, after=after, retention_s=0.0, limit=3)
        removed, pages = removed + page.removed, pages + 1
        if page.next_job is None:
            break
        assert page.next_job > after
        after = page.next_job
    assert (removed, pages) == (5, 4)


async def test_a_page_tells_that_its_last_job_is_too_young(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 4)
    for job in await claim(db, 4):
        await settle(db, job)
    await db.execute("UPDATE jobqueue.jobs SET created_at = now() - interval '10 s' WHERE id <= 2")
    pages = [await prune_jobs(db, after=at, retention_s=5.0, limit=2) for at in (0, 2, 4)]
    assert [(page.next_job, page.young) for page in pages] == [(2, False), (4, True), (None, False)]


async def test_a_held_job_does_not_stop_the_page(db: Connection, another: Connect) -> None:
    await add_queue(db)
    await submit(db, 3)
    for job in await claim(db, 3):
        await settle(db, job)
    holder = await another()
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.finished LIMIT 1 FOR UPDATE")
        assert (await prune_jobs(db, after=0, retention_s=0.0, limit=10)).removed == 2
    assert (await prune_jobs(db, after=0, retention_s=0.0, limit=10)).removed == 1


async def test_an_empty_table_is_one_empty_page(db: Connection) -> None:
    assert await prune_jobs(db, after=0, retention_s=0.0, limit=10) == await prune_jobs(
        db, after=10**12, retention_s=0.0, limit=10
    )
