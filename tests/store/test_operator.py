"""Cancel, retry and delete in every status, and when the job moves meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import asyncpg
import pytest

from jobqueue.domain.outcome import Refused
from jobqueue.store.jobs import cancel_job, delete_job, get_job, retry_job
from jobqueue.store.pool import Connection
from jobqueue.store.queues import list_queues
from tests.store.conftest import Connect
from tests.support.store import (
    FAILURE,
    add_queue,
    claim_one,
    last_event,
    let_moves_wait,
    path,
    row_of,
    settle,
    status,
    submit,
    waits_for_lock,
)
from tests.support.waiting import eventually

FROM_THE_END = ("DONE", "DEAD_LETTERED", "FAILED", "RUNNING", "ASSIGNED", "DELAYED", "PENDING")
"""A job that waits to be claimed comes last, so that it is never the one the next claim gets."""


async def job_in(db: Connection, state: str) -> UUID:
    """Make a job in this status, and its queue when it is the first."""
    if not await list_queues(db, "q"):
        await add_queue(db)
    (job_id,) = await submit(db, delay_s=60.0 if state == "DELAYED" else 0.0, ttl_s=600.0)
    outcome = {"FAILED": FAILURE, "DONE": None, "DEAD_LETTERED": Refused("no")}
    if state in {"ASSIGNED", "RUNNING", *outcome}:
        job = await claim_one(db, running=state != "ASSIGNED")
        if state in outcome:
            await settle(db, job, outcome[state])
    return job_id


@pytest.mark.parametrize("running", [False, True])
async def test_cancel_answers_the_truth(db: Connection, *, running: bool) -> None:
    for state in FROM_THE_END:
        job_id = await job_in(db, state)
        before = await path(db, job_id)
        answer = (await cancel_job(db, job_id, running=running)).word
        if state in {"PENDING", "DELAYED", "ASSIGNED", "FAILED"}:
            assert answer == "CANCELLED"
            assert await path(db, job_id) == [*before, "DEAD_LETTERED:CANCELLED"]
            continue
        assert answer == ("REQUESTED" if state == "RUNNING" and running else state)
        assert await path(db, job_id) == before


async def test_a_cancelled_job_keeps_its_count_of_retries(db: Connection) -> None:
    job_id = await job_in(db, "FAILED")
    await cancel_job(db, job_id, running=False)
    job = await get_job(db, job_id)
    assert job is not None
    assert (job.status, job.retry_count) == ("DEAD_LETTERED", 1)


async def test_a_cancel_request_is_shown_and_may_be_repeated(db: Connection) -> None:
    job_id = await job_in(db, "RUNNING")
    for _ in range(2):
        assert (await cancel_job(db, job_id, running=True)).word == "REQUESTED"
    job = await get_job(db, job_id)
    assert job is not None
    assert (job.status, job.cancel_requested) == ("RUNNING", True)


async def test_retry_answers_the_truth(db: Connection) -> None:
    for state in FROM_THE_END:
        job_id = await job_in(db, state)
        before = await path(db, job_id)
        answer = (await retry_job(db, job_id)).word
        if state in {"FAILED", "DEAD_LETTERED"}:
            assert answer == "RETRIED"
            assert await path(db, job_id) == [*before, "PENDING:OPERATOR_RETRY"]
            await cancel_job(db, job_id, running=False)  # or the next claim would get it
            continue
        assert answer == ("PENDING" if state == "DELAYED" else state)
        assert await path(db, job_id) == before


@pytest.mark.parametrize(("state", "attempt"), [("FAILED", 1), ("DEAD_LETTERED", 0)])
async def test_a_retried_job_has_fresh_counters_and_a_fresh_ttl(
    db: Connection, state: str, attempt: int
) -> None:
    job_id = await job_in(db, state)
    await db.execute("UPDATE jobqueue.jobs SET created_at = created_at - interval '1 hour'")
    await retry_job(db, job_id)
    ready = await row_of(db, "ready", job_id)
    assert ready is not None
    assert (ready["attempt"], ready["retries"], ready["crashes"]) == (attempt, 0, 0)
    left = await db.fetchval("SELECT $1 - clock_timestamp()", ready["expires_at"])
    assert 590 < left.total_seconds() <= 600


async def test_delete_takes_only_finished_jobs_and_leaves_their_events(db: Connection) -> None:
    for state in FROM_THE_END:
        job_id = await job_in(db, state)
        before = await db.fetchval("SELECT count(*) FROM jobqueue.job_event_log")
        answer = await delete_job(db, job_id)
        if state in {"DONE", "DEAD_LETTERED"}:
            assert answer == "DELETED"
            assert await status(db, job_id) is None
            assert await delete_job(db, job_id) == "NOT_FOUND"
        else:
            assert answer == ("PENDING" if state == "DELAYED" else state)
            assert await status(db, job_id) is not None
        assert await db.fetchval("SELECT count(*) FROM jobqueue.job_event_log") == before


async def test_an_unknown_job_is_not_found(db: Connection) -> None:
    assert (await cancel_job(db, uuid4(), running=True)).word == "NOT_FOUND"
    assert (await retry_job(db, uuid4())).word == "NOT_FOUND"
    assert await delete_job(db, uuid4()) == "NOT_FOUND"


async def test_a_cancelled_assigned_job_names_the_worker_it_was_taken_from(db: Connection) -> None:
    job_id = await job_in(db, "ASSIGNED")
    await cancel_job(db, job_id, running=False)
    finished = await row_of(db, "finished", job_id)
    assert finished is not None
    assert finished["worker_id"] == 1
    assert (await last_event(db, job_id))["reason"] == "CANCELLED"


async def test_a_cancel_finds_a_job_that_a_claim_took_meanwhile(
    db: Connection, another: Connect
) -> None:
    await let_moves_wait(db)
    job_id = await job_in(db, "PENDING")
    claimer, operator = await another(), await another()
    held = claimer.transaction()
    await held.start()
    await claim_one(claimer)
    cancel = asyncio.create_task(cancel_job(operator, job_id, running=True))
    await eventually(lambda: waits_for_lock(db, operator))
    await held.commit()
    assert (await cancel).word == "REQUESTED"


async def test_a_cancel_finds_a_job_that_a_settle_ended_meanwhile(
    db: Connection, another: Connect
) -> None:
    await let_moves_wait(db)
    job_id = await job_in(db, "PENDING")
    job = await claim_one(db, running=False)
    worker, operator = await another(), await another()
    held = worker.transaction()
    await held.start()
    await settle(worker, job, FAILURE)
    cancel = asyncio.create_task(cancel_job(operator, job_id, running=False))
    await eventually(lambda: waits_for_lock(db, operator))
    await held.commit()
    assert (await cancel).word == "CANCELLED"
    assert (await path(db, job_id))[-2:] == ["FAILED:HANDLER_FAILED", "DEAD_LETTERED:CANCELLED"]


async def test_a_retry_finds_a_job_that_was_deleted_meanwhile(
    db: Connection, another: Connect
) -> None:
    await let_moves_wait(db)
    job_id = await job_in(db, "DEAD_LETTERED")
    other, operator = await another(), await another()
    held = other.transaction()
    await held.start()
    await delete_job(other, job_id)
    retry = asyncio.create_task(retry_job(operator, job_id))
    await eventually(lambda: waits_for_lock(db, operator))
    await held.commit()
    assert (await retry).word == "NOT_FOUND"


async def test_no_move_waits_for_ever_for_a_row_that_a_transaction_holds(
    db: Connection, another: Connect
) -> None:
    running, dead = await job_in(db, "RUNNING"), await job_in(db, "DEAD_LETTERED")
    moves: list[Callable[[Connection], Awaitable[object]]] = [
        lambda c: cancel_job(c, running, running=True),
        lambda c: retry_job(c, dead),
        lambda c: delete_job(c, dead),
    ]
    holder, *operators = [await another() for _ in range(4)]
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.leases FOR UPDATE")
        await holder.execute("SELECT FROM jobqueue.finished FOR UPDATE")
        trying = [move(operator) for move, operator in zip(moves, operators, strict=True)]
        answers = await asyncio.gather(*trying, return_exceptions=True)
    assert [type(answer) for answer in answers] == [asyncpg.LockNotAvailableError] * 3
    assert (await cancel_job(db, running, running=True)).word == "REQUESTED"


@pytest.mark.parametrize("call", [lambda c, j: cancel_job(c, j, running=True), retry_job])
async def test_moving_a_job_needs_read_committed(db: Connection, call: object) -> None:
    job_id = await job_in(db, "FAILED")
    with pytest.raises(asyncpg.PostgresError, match="READ COMMITTED"):
        async with db.transaction(isolation="repeatable_read"):
            await call(db, job_id)  # type: ignore[operator]
