"""The record of moves: immutable, legal, dated as things happened (R-3.6, R-3.7)."""

import asyncpg
import pytest

from jobqueue.domain.state import EVENT_TYPES, JobStatus
from jobqueue.store.jobs import list_job_events
from jobqueue.store.pool import Connection
from tests.support.store import add_queue, claim_one, settle, submit

CHANGES = ["UPDATE {} SET detail = 'x'", "DELETE FROM {}", "TRUNCATE {}"]


async def partition_in_use(db: Connection) -> str:
    return str(
        await db.fetchval("SELECT tableoid::regclass::text FROM jobqueue.job_events LIMIT 1")
    )


@pytest.mark.parametrize("role", ["origin", "replica"])
async def test_the_database_refuses_to_change_the_record(db: Connection, role: str) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await db.execute(
        "INSERT INTO jobqueue.job_events_kept (eid, xid, job, at, queue_id, seq, to_status, "
        "reason, attempt) SELECT eid, xid, -1, at, queue_id, 1, to_status, reason, attempt "
        "FROM jobqueue.job_events"
    )
    partition = await partition_in_use(db)
    await db.execute(f"SET session_replication_role = {role}")
    for table in ("jobqueue.job_events", partition, "jobqueue.job_events_kept"):
        for change in CHANGES:
            with pytest.raises(asyncpg.RestrictViolationError, match="immutable"):
                await db.execute(change.format(table))
    assert len(await list_job_events(db, job_id)) == 1


async def test_a_new_partition_is_protected_like_the_old_ones(bare: Connection) -> None:
    await bare.execute("SELECT jobqueue.create_event_partition('2040-01-02'::date)")
    with pytest.raises(asyncpg.RestrictViolationError):
        await bare.execute("TRUNCATE jobqueue.job_events_2040w01")
    await add_queue(bare)
    await bare.execute(
        "INSERT INTO jobqueue.job_events (job, at, queue_id, seq, to_status, reason, attempt) "
        "VALUES (-1, '2040-01-03', 1, 1, 'PENDING', 'SUBMITTED', 0)"
    )
    for change in CHANGES:
        with pytest.raises(asyncpg.RestrictViolationError):
            await bare.execute(change.format("jobqueue.job_events_2040w01"))


async def test_exactly_the_moves_of_the_contract_can_be_stored(bare: Connection) -> None:
    stored = set()
    for before in (None, *JobStatus):
        for after in JobStatus:
            try:
                await bare.execute(
                    "INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, "
                    "reason, attempt) VALUES (1, 1, 1, $1, $2, 'SUBMITTED', 0)",
                    before,
                    after,
                )
            except asyncpg.CheckViolationError:
                continue
            stored.add((before, after))
    assert stored == EVENT_TYPES.keys()


async def test_events_of_one_transaction_are_dated_as_they_happened(db: Connection) -> None:
    await add_queue(db)
    async with db.transaction():
        (job_id,) = await submit(db)
        await settle(db, await claim_one(db))
    times = [event.at for event in await list_job_events(db, job_id)]
    assert times == sorted(times)
    assert times[0] < times[-1]
