"""`jq-ctl doctor` finds each fault of the record by name, and none where there is none."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from jobqueue.domain.checkup import EXAMPLES, CheckProgress, Finding, Verdict
from jobqueue.domain.outcome import Refused
from jobqueue.errors import Aborted, InvalidArgument
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.upkeep import prune_jobs, roll_stats
from jobqueue.submission import walks
from jobqueue.submission.doctor import Doctor
from tests.store.conftest import Connect
from tests.support.checkup import bad, checked
from tests.support.store import FAILURE, add_queue, claim, settle, spec, store, submit

Plant = Callable[[Connection], Awaitable[object]]


async def any_job(db: Connection, table: str) -> tuple[int, UUID]:
    row = await db.fetchrow(
        f"SELECT id, job_id FROM jobqueue.{table} JOIN jobqueue.jobs USING (id) ORDER BY id LIMIT 1"
    )
    assert row is not None
    return row["id"], row["job_id"]


async def change_events(db: Connection, *statements: str) -> None:
    """Change what nobody may change, as somebody might who owns the database."""
    await db.execute("ALTER TABLE jobqueue.job_events DISABLE TRIGGER job_events_immutable")
    await db.execute("ALTER TABLE jobqueue.job_events DROP CONSTRAINT job_events_legal_move")
    for text in statements:
        await db.execute(text)
    await db.execute(
        "ALTER TABLE jobqueue.job_events ADD CONSTRAINT job_events_legal_move CHECK (true)"
    )
    await db.execute("ALTER TABLE jobqueue.job_events ENABLE ALWAYS TRIGGER job_events_immutable")


async def test_a_healthy_database_has_nothing_to_say(lived: Connection, pool: Pool) -> None:
    assert await bad(pool) == {}


async def test_every_finding_that_is_not_ok_comes_with_advice(
    lived: Connection, pool: Pool
) -> None:
    found = await checked(pool, "settings")
    assert found["settings"].verdict is Verdict.FAIL
    assert "fsync is off" in found["settings"].found
    assert found["settings"].advice


def forget(table: str) -> Plant:
    async def plant(db: Connection) -> UUID:
        job, job_id = await any_job(db, table)
        await db.execute(f"DELETE FROM jobqueue.{table} WHERE id = $1", job)
        return job_id

    return plant


@pytest.mark.parametrize("table", ["ready", "scheduled", "leases", "finished"])
async def test_a_job_in_no_table_is_found(lived: Connection, pool: Pool, table: str) -> None:
    job_id = await forget(table)(lived)
    found = await checked(pool)
    assert found["places"].verdict is Verdict.FAIL
    assert found["places"].examples == (f"{job_id} in no table",)
    assert found["figures"].verdict is Verdict.FAIL


async def test_a_job_in_two_tables_is_found(lived: Connection, pool: Pool) -> None:
    job, job_id = await any_job(lived, "finished")
    await lived.execute(
        "INSERT INTO jobqueue.ready SELECT $1, ready_at, expires_at, queue_id, seq, attempt, "
        "reason, priority, retries, crashes, handbacks, unhandled FROM jobqueue.ready LIMIT 1",
        job,
    )
    found = await checked(pool)
    assert found["places"].examples == (f"{job_id} in finished and ready",)
    assert found["status"].examples == (str(job_id),)


@pytest.mark.parametrize("table", ["ready", "scheduled", "leases", "finished"])
async def test_a_row_without_a_job_is_found(lived: Connection, pool: Pool, table: str) -> None:
    job, _ = await any_job(lived, table)
    await lived.execute("DELETE FROM jobqueue.jobs WHERE id = $1", job)
    found = (await checked(pool))["places"]
    assert found.verdict is Verdict.FAIL
    assert found.examples == (f"row {job} of {table} without a job",)


@pytest.mark.parametrize("table", ["ready", "scheduled", "leases", "finished"])
async def test_a_job_in_the_place_of_another_queue_is_found(
    lived: Connection, pool: Pool, table: str
) -> None:
    job, job_id = await any_job(lived, table)
    await add_queue(lived, "other")
    await lived.execute(
        f"UPDATE jobqueue.{table} SET queue_id = (SELECT max(queue_id) FROM jobqueue.queues)"
        " WHERE id = $1",
        job,
    )
    assert (await checked(pool))["places"].examples == (f"{job_id} in {table} of another queue",)


async def test_jobs_of_a_queue_that_was_erased_are_found(lived: Connection, pool: Pool) -> None:
    _, job_id = await any_job(lived, "leases")
    await lived.execute("DELETE FROM jobqueue.queues")
    found = (await checked(pool, "places"))["places"]
    assert found.found.startswith("8 jobs are ")
    assert f"{job_id} in leases of no queue" in found.examples


@pytest.mark.parametrize(
    "change",
    ["finished SET reason = 'CRASH_LIMIT'", "leases SET attempt = 9", "leases SET token = 9999"],
)
async def test_a_row_that_tells_another_story_than_its_last_event_is_found(
    lived: Connection, pool: Pool, change: str
) -> None:
    job, job_id = await any_job(lived, change.split(maxsplit=1)[0])
    await lived.execute(f"UPDATE jobqueue.{change} WHERE id = $1", job)
    assert (await checked(pool))["status"].examples == (str(job_id),)


async def test_rows_beyond_the_last_job_are_found_too(lived: Connection, pool: Pool) -> None:
    await lived.execute("UPDATE jobqueue.leases SET id = 10000000 + id")
    found = (await checked(pool, "places"))["places"]
    assert {example.split()[0] for example in found.examples} == {"row"} | {
        example.split()[0] for example in found.examples if "in no table" in example
    }
    assert "1000000" in "".join(found.examples)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ("UPDATE jobqueue.job_events SET seq = seq + 1 WHERE job = $1 AND seq > 1", "sequences"),
        ("DELETE FROM jobqueue.job_events WHERE job = $1 AND seq = 2", "sequences"),
        ("DELETE FROM jobqueue.job_events WHERE job = $1 AND seq = 1", "sequences"),
        (
            "UPDATE jobqueue.job_events SET to_status = 'DONE' WHERE job = $1 AND seq = 1",
            "transitions",
        ),
        (
            "UPDATE jobqueue.job_events SET from_status = 'FAILED' WHERE job = $1 AND seq = 2",
            "transitions",
        ),
        (
            "UPDATE jobqueue.job_events SET eid = -eid WHERE job = $1 AND seq = 3",
            "transitions",
        ),
        ("DELETE FROM jobqueue.job_events WHERE job = $1 AND to_status = 'DONE'", "status"),
        ("DELETE FROM jobqueue.job_events WHERE job = $1", "status"),
    ],
    ids=["gap", "missing", "no first", "illegal", "no chain", "out of order", "no last", "none"],
)
async def test_a_broken_story_is_found(
    lived: Connection, pool: Pool, change: str, check: str
) -> None:
    job = await lived.fetchval("SELECT id FROM jobqueue.finished WHERE NOT dead")
    job_id = await lived.fetchval("SELECT job_id FROM jobqueue.jobs WHERE id = $1", job)
    await change_events(lived, change.replace("$1", str(job)))
    found = (await checked(pool))[check]
    assert found.verdict is Verdict.FAIL
    assert found.examples == (str(job_id),)


async def test_a_job_that_is_not_where_its_last_event_says_is_found(
    lived: Connection, pool: Pool
) -> None:
    _, job_id = await any_job(lived, "leases")
    await lived.execute(
        "UPDATE jobqueue.leases l SET running = NOT running FROM jobqueue.jobs j "
        "WHERE j.id = l.id AND j.job_id = $1",
        job_id,
    )
    assert (await checked(pool))["status"].examples == (str(job_id),)


async def test_kept_events_count_as_well_and_twice_is_not_a_fault(
    lived: Connection, pool: Pool
) -> None:
    job = await lived.fetchval("SELECT id FROM jobqueue.finished WHERE dead")
    await roll_stats(lived)
    await lived.execute(
        f"INSERT INTO jobqueue.job_events_kept SELECT * FROM jobqueue.job_events WHERE job = {job}"
    )
    assert await bad(pool) == {}
    await change_events(lived, f"DELETE FROM jobqueue.job_events WHERE job = {job} AND seq < 3")
    assert await bad(pool) == {}


async def test_a_key_without_its_job_is_found_and_the_job_that_lost_it(
    lived: Connection, pool: Pool
) -> None:
    lost = await lived.fetchval("SELECT job_id FROM jobqueue.idempotency_keys")
    stray = await lived.fetchval(
        "UPDATE jobqueue.idempotency_keys SET job_id = gen_random_uuid() RETURNING job_id"
    )
    examples = (await checked(pool, "keys"))["keys"].examples
    assert sorted(examples) == sorted([str(lost), str(stray)])


_ANOTHERS_KEY = (
    "UPDATE jobqueue.idempotency_keys k SET job_id = j.job_id FROM jobqueue.jobs j "
    "WHERE j.id = 1 AND j.idempotency_key IS NULL"
)


@pytest.mark.parametrize(
    ("change", "found_jobs"),
    [
        ("DELETE FROM jobqueue.idempotency_keys", 1),
        ("UPDATE jobqueue.jobs SET idempotency_key = NULL", 1),
        (_ANOTHERS_KEY, 2),
    ],
    ids=["no key", "no key at the job", "another's key"],
)
async def test_a_job_and_a_key_that_do_not_name_each_other_are_found(
    lived: Connection, pool: Pool, change: str, found_jobs: int
) -> None:
    await lived.execute(change)
    found = (await checked(pool, "keys"))["keys"]
    assert found.verdict is Verdict.FAIL
    assert len(found.examples) == found_jobs


async def test_at_most_five_jobs_are_named_and_all_are_counted(
    lived: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(lived, 20)
    await lived.execute("DELETE FROM jobqueue.ready")
    monkeypatch.setattr(walks, "PAGE_JOBS", 3)
    found = (await checked(pool, "places"))["places"]
    assert len(found.examples) == EXAMPLES
    gone = await lived.fetchval(
        "SELECT count(*) FROM jobqueue.job_status s RIGHT JOIN jobqueue.jobs j USING (job_id) "
        "WHERE s.job_id IS NULL"
    )
    assert found.found.startswith(f"{gone} jobs ")


@pytest.mark.parametrize("size", [1, 3, 8, 100])
async def test_pages_of_any_size_meet_every_job_and_key_once(
    lived: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    await store(lived, [spec(idempotency_key=str(n)) for n in range(7)])
    monkeypatch.setattr(walks, "PAGE_JOBS", size)
    monkeypatch.setattr(walks, "PAGE_KEYS", size)
    found = await checked(pool, "places", "status", "keys")
    assert found["places"].found == found["status"].found == "looked at 15 jobs"
    assert found["keys"].found == "looked at 8 keys"


async def test_a_quick_check_up_walks_the_newest_and_counts_nothing(
    lived: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest = await lived.fetchval("SELECT min(id) FROM jobqueue.jobs")
    await lived.execute("DELETE FROM jobqueue.finished WHERE id = $1", oldest)
    monkeypatch.setattr(walks, "NEWEST_JOBS", 4)
    found = await checked(pool, quick=True)
    assert {f.check for f in found.values() if f.verdict is Verdict.SKIPPED} == {"figures", "keys"}
    assert found["places"].found == "looked at the newest 4 jobs"
    assert (await checked(pool))["places"].verdict is Verdict.FAIL


async def test_progress_tells_how_far_a_walk_has_come(
    lived: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "PAGE_JOBS", 3)
    steps = [step async for step in Doctor(pool).run(["places"])]
    assert [s.seen for s in steps if isinstance(s, CheckProgress)] == [3, 6, 8]


async def test_a_check_that_takes_too_long_has_failed(
    lived: Connection, pool: Pool, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "PAGE_TIMEOUT_S", 0.2)
    holder = await another()
    async with holder.transaction():
        await holder.execute("LOCK TABLE jobqueue.finished")
        found = await checked(pool, "places", "status")
    assert [f.verdict for f in found.values()] == [Verdict.FAIL, Verdict.FAIL]
    assert found["places"].found.startswith("could not be proven: ")


async def test_a_name_that_is_no_check_is_refused(pool: Pool) -> None:
    with pytest.raises(InvalidArgument, match="places, sequences"):
        await checked(pool, "nonsense")


async def test_one_check_up_runs_at_a_time_and_an_abandoned_one_ends(
    lived: Connection, pool: Pool
) -> None:
    doctor = Doctor(pool)
    first = doctor.run()
    await anext(first)
    with pytest.raises(Aborted):
        await anext(doctor.run())
    await first.aclose()
    assert isinstance(await anext(doctor.run()), Finding)


async def test_nothing_is_found_while_everything_moves(
    lived: Connection, pool: Pool, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submitters, workers, the roller and the pruner work all the time."""
    monkeypatch.setattr(walks, "PAGE_JOBS", 200)
    stop = asyncio.Event()
    moves = [asyncio.create_task(keep_moving(await another(), stop, number)) for number in range(3)]
    try:
        for _ in range(4):
            assert await bad(pool) == {}
    finally:
        stop.set()
        moved = await asyncio.gather(*moves)
    assert min(moved) > 0


async def keep_moving(db: Connection, stop: asyncio.Event, worker: int) -> int:
    """Submit, claim, settle, roll, prune until told to stop; return how many jobs ended."""
    ended = 0
    while not stop.is_set():
        await submit(db, 20)
        for number, job in enumerate(await claim(db, 15, worker=worker)):
            outcome = (None, FAILURE, Refused("no"))[number % 3]
            await settle(db, job, outcome, worker=worker)
            ended += 1
        await roll_stats(db)
        await prune_jobs(db, after=0, retention_s=0.0, limit=10)
    return ended
