"""What time asks for: promotion of due jobs, and the end of a TTL."""

import asyncio
from datetime import timedelta

import pytest

from jobqueue.domain.outcome import Unhandled
from jobqueue.store.pool import Connection
from jobqueue.store.queues import cancel_queue_jobs, pause_queue
from jobqueue.store.upkeep import PromotedQueue, expire_jobs, promote_jobs
from tests.store.conftest import Connect
from tests.support.store import (
    FAILURE,
    add_queue,
    claim,
    claim_one,
    delete_queue,
    end_ttl,
    make_due,
    path,
    row_of,
    settle,
    status,
    submit,
)


async def test_a_delayed_job_becomes_ready_at_its_due_time_without_an_event(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, delay_s=60.0, ttl_s=600.0)
    assert (await promote_jobs(db, 10)).count == 0
    await make_due(db)
    waiting = await row_of(db, "scheduled", job_id)
    (queue,) = (await promote_jobs(db, 10)).by_queue
    assert queue == PromotedQueue("q", 1, 0, paused=False, overdue_s=queue.overdue_s)
    assert queue.overdue_s >= 0
    ready = await row_of(db, "ready", job_id)
    assert ready is not None
    assert waiting is not None
    assert (ready["ready_at"], ready["expires_at"]) == (waiting["due_at"], waiting["expires_at"])
    assert (ready["seq"], ready["reason"]) == (1, "SUBMITTED")
    assert await path(db, job_id) == ["PENDING:SUBMITTED"]


async def test_a_failed_job_becomes_pending_with_an_event_and_its_counters(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), FAILURE)
    await db.execute("UPDATE jobqueue.scheduled SET crashes = 2, handbacks = 3, unhandled = 4")
    await make_due(db)
    assert (await promote_jobs(db, 10)).count == 1
    assert (await path(db, job_id))[-2:] == ["FAILED:HANDLER_FAILED", "PENDING:RETRY_DUE"]
    ready = await row_of(db, "ready", job_id)
    assert ready is not None
    kept = ("attempt", "retries", "crashes", "handbacks", "unhandled")
    assert [ready[name] for name in kept] == [1, 1, 2, 3, 4]
    assert (await claim_one(db)).attempt == 2


async def test_a_row_without_a_number_for_its_next_event_stops_no_sweep(bare: Connection) -> None:
    await add_queue(bare)
    stuck, plain = [(await submit(bare, delay_s=60.0, ttl_s=60.0))[0] for _ in range(2)]
    await bare.execute(
        "UPDATE jobqueue.scheduled s SET seq = 2147483647, failed = true FROM jobqueue.jobs j "
        "WHERE j.id = s.id AND j.job_id = $1",
        stuck,
    )
    await make_due(bare)
    assert (await promote_jobs(bare, 10)).count == 1
    assert await status(bare, plain) == "PENDING"
    await end_ttl(bare)
    assert (await expire_jobs(bare, 10)).total() == 1
    (other,) = await submit(bare)
    await delete_queue(bare, "q", force=True)
    assert (await cancel_queue_jobs(bare, 10)).count == 1
    assert await status(bare, other) == "DEAD_LETTERED"


async def test_paused_queues_are_promoted_but_not_announced(db: Connection) -> None:
    await add_queue(db, "a")
    await add_queue(db, "b")
    for name in ("a", "b"):
        await submit(db, queue=name, delay_s=60.0)
    await pause_queue(db, "a", paused=True)
    await make_due(db)
    promoted = await promote_jobs(db, 10)
    assert (promoted.count, promoted.queues) == (2, frozenset({"b"}))


async def test_two_schedulers_promote_every_job_once(db: Connection, another: Connect) -> None:
    await add_queue(db)
    await submit(db, 300, delay_s=60.0)
    await make_due(db)

    async def promote_all(connection: Connection) -> int:
        total = 0
        while count := (await promote_jobs(connection, 25)).count:
            total += count
        return total

    assert sum(await asyncio.gather(promote_all(db), promote_all(await another()))) == 300


@pytest.mark.parametrize("delay_s", [0.0, 60.0], ids=["ready", "scheduled"])
async def test_a_job_never_started_dies_when_its_ttl_is_over(
    db: Connection, delay_s: float
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, ttl_s=60.0, delay_s=delay_s)
    (immortal,) = await submit(db, delay_s=delay_s)
    assert (await expire_jobs(db, 10)).total() == 0
    await end_ttl(db)
    assert (await expire_jobs(db, 10)).total() == 1
    assert await path(db, job_id) == ["PENDING:SUBMITTED", "DEAD_LETTERED:TTL_EXPIRED"]
    assert await status(db, immortal) == "PENDING"


@pytest.mark.parametrize("table", ["ready", "scheduled"])
async def test_a_job_that_somebody_holds_does_not_keep_others_from_the_end_of_their_ttl(
    db: Connection, another: Connect, table: str
) -> None:
    await add_queue(db)
    held, other = await submit(db, 2, ttl_s=60.0, delay_s=60.0 if table == "scheduled" else 0.0)
    await end_ttl(db)
    holder = await another()
    async with holder.transaction():
        await holder.execute(
            f"SELECT FROM jobqueue.{table} WHERE id = "
            "(SELECT id FROM jobqueue.jobs WHERE job_id = $1) FOR UPDATE",
            held,
        )
        assert (await expire_jobs(db, 10)).total() == 1
    assert [await status(db, job_id) for job_id in (held, other)] == ["PENDING", "DEAD_LETTERED"]


async def test_a_job_that_waits_for_a_handler_dies_when_its_ttl_is_over(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, ttl_s=60.0)
    await settle(db, await claim_one(db, running=False), Unhandled())
    await end_ttl(db)
    assert (await expire_jobs(db, 10)).total() == 1
    assert (await path(db, job_id))[-2:] == ["FAILED:NO_HANDLER", "DEAD_LETTERED:TTL_EXPIRED"]


async def test_a_job_once_started_is_bound_by_no_ttl(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, ttl_s=60.0)
    job = await claim_one(db)
    await end_ttl(db)
    assert (await expire_jobs(db, 10)).total() == 0
    assert await status(db, job_id) == "RUNNING"
    await settle(db, job, FAILURE)
    await end_ttl(db)
    assert (await expire_jobs(db, 10)).total() == 0
    assert await status(db, job_id) == "FAILED"


async def test_a_ttl_runs_on_in_a_paused_queue(db: Connection) -> None:
    await add_queue(db)
    await submit(db, ttl_s=60.0)
    await pause_queue(db, "q", paused=True)
    await end_ttl(db)
    assert (await expire_jobs(db, 10)).total() == 1


async def test_sweeps_take_at_most_their_limit_of_each_table(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 3, ttl_s=60.0)
    await submit(db, 3, ttl_s=60.0, delay_s=60.0)
    await end_ttl(db)
    assert [(await expire_jobs(db, 2)).total() for _ in range(3)] == [4, 2, 0]


async def test_a_late_promotion_goes_in_line_by_its_due_time(db: Connection) -> None:
    await add_queue(db)
    (fresh,) = await submit(db)
    (late,) = await submit(db, delay_s=60.0)
    await make_due(db)
    await promote_jobs(db, 10)
    ready = await row_of(db, "ready", late)
    assert ready is not None
    assert await db.fetchval("SELECT now() - $1::timestamptz", ready["ready_at"]) >= timedelta(
        seconds=1
    )
    assert [job.job_id for job in await claim(db, 2)] == [late, fresh]
