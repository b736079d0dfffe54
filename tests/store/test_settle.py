"""Ends of leases: every outcome, running and assigned, with and without a cancel request."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from jobqueue.domain.lease import Counters, Lease
from jobqueue.domain.outcome import (
    Cancelled,
    Completed,
    Failed,
    Fate,
    LeaseExpired,
    Outcome,
    Postponed,
    Refused,
    Released,
    Settlement,
    Unhandled,
)
from jobqueue.domain.state import Reason
from jobqueue.store.jobs import cancel_job, get_job
from jobqueue.store.leases import complete_leases, settle_leases
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.store import (
    FAILURE,
    WORKER,
    add_queue,
    claim,
    claim_one,
    last_event,
    path,
    row_of,
    settle,
    settlement,
    status,
    submit,
)

RUN = ["PENDING:SUBMITTED", "ASSIGNED:CLAIMED", "RUNNING:STARTED"]
ASSIGNED = RUN[:2]
CANCEL = ["FAILED:CANCELLED", "DEAD_LETTERED:CANCELLED"]
ENDS: list[tuple[Outcome, int, list[str]]] = [
    (Completed(b"r"), 3, ["DONE:COMPLETED"]),
    (FAILURE, 3, ["FAILED:HANDLER_FAILED"]),
    (FAILURE, 0, ["FAILED:HANDLER_FAILED", "DEAD_LETTERED:RETRIES_EXHAUSTED"]),
    (Refused("never"), 3, ["FAILED:REFUSED", "DEAD_LETTERED:REFUSED"]),
    (Postponed(5.0), 0, ["FAILED:RETRY_LATER"]),
    (Released(), 0, ["FAILED:RELEASED", "PENDING:RELEASED"]),
    (Cancelled(), 3, CANCEL),
    (LeaseExpired(running=True), 3, ["FAILED:LEASE_EXPIRED"]),
]
HANDED_BACK: list[tuple[Outcome, list[str]]] = [
    (Released(), ["FAILED:RELEASED", "PENDING:RELEASED"]),
    (Unhandled("no t"), ["FAILED:NO_HANDLER"]),
    (LeaseExpired(running=False), ["FAILED:LEASE_EXPIRED", "PENDING:LEASE_EXPIRED"]),
]
TABLES = {
    "DONE": "finished",
    "DEAD_LETTERED": "finished",
    "FAILED": "scheduled",
    "PENDING": "ready",
}


async def take_away(db: Connection, job_id: UUID) -> None:
    """See to it that the next claim does not get this job."""
    await cancel_job(db, job_id, running=False)


@pytest.mark.parametrize("cancel", [False, True], ids=["", "cancelled"])
async def test_a_running_job_ends_as_its_outcome_says_unless_it_was_cancelled(
    db: Connection, *, cancel: bool
) -> None:
    await add_queue(db)
    for outcome, max_retries, end in ENDS:
        (job_id,) = await submit(db, max_retries=max_retries, priority=9)
        job = await claim_one(db)
        await db.execute("UPDATE jobqueue.leases SET cancel_requested = $1", cancel)
        assert await settle(db, job, outcome) == "settled"
        expected = CANCEL if cancel and not isinstance(outcome, Completed) else end
        assert await path(db, job_id) == [*RUN, *expected]
        event = await last_event(db, job_id)
        assert (event["attempt"], event["token"]) == (1, job.lease.token)
        await take_away(db, job_id)


async def test_a_failure_that_a_cancel_overtakes_costs_no_retry(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, max_retries=3)
    job = await claim_one(db)
    assert await cancel_job(db, job_id, running=True) is not None
    assert await settle(db, job, Failed("boom")) == "settled"
    row = await row_of(db, "finished", job_id)
    assert row is not None
    assert (row["reason"], row["retries"]) == ("CANCELLED", 0)


@pytest.mark.parametrize("cancel", [False, True], ids=["", "cancelled"])
async def test_an_assigned_job_goes_back_unless_it_was_cancelled(
    db: Connection, *, cancel: bool
) -> None:
    await add_queue(db)
    for outcome, end in HANDED_BACK:
        (job_id,) = await submit(db, ttl_s=60.0)
        job = await claim_one(db, running=False)
        await db.execute("UPDATE jobqueue.leases SET cancel_requested = $1", cancel)
        assert await settle(db, job, outcome) == "settled"
        assert await path(db, job_id) == [*ASSIGNED, *(CANCEL if cancel else end)]
        table = TABLES[(CANCEL if cancel else end)[-1].split(":")[0]]
        row = await row_of(db, table, job_id)
        assert row is not None
        assert row["attempt"] == 0
        assert cancel or row["expires_at"] is not None
        await take_away(db, job_id)


async def test_a_done_job_keeps_its_result_and_times(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db)
    await settle(db, job, Completed(b"\x00r", truncated=True))
    done = await get_job(db, job_id)
    assert done is not None
    assert (done.result, done.result_truncated, done.last_error) == (b"\x00r", True, None)
    assert done.started_at is not None
    assert done.finished_at is not None
    assert done.created_at <= done.started_at <= done.finished_at


@pytest.mark.parametrize("result", [None, b""])
async def test_no_result_and_an_empty_one_are_two_things(
    db: Connection, result: bytes | None
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), Completed(result))
    done = await get_job(db, job_id)
    assert done is not None
    assert done.result == result


async def test_a_retry_waits_for_its_backoff_and_keeps_its_counters(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, priority=7)
    job = await claim_one(db)
    ready_at = await db.fetchval("SELECT ready_at FROM jobqueue.leases")
    await settle(db, job, LeaseExpired(running=True))
    waiting = await row_of(db, "scheduled", job_id)
    event = await last_event(db, job_id)
    assert waiting is not None
    assert waiting["due_at"] == event["at"] + timedelta(seconds=job.policy.base_delay_s)  # type: ignore[operator]
    assert (waiting["retries"], waiting["crashes"], waiting["attempt"]) == (1, 1, 1)
    assert (waiting["ready_at"], waiting["priority"]) == (ready_at, 7)


async def test_a_job_lost_before_its_start_goes_back_with_its_counters(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, priority=7)
    job = await claim_one(db, running=False)
    counted = {"retries": 1, "crashes": 2, "handbacks": 3, "unhandled": 4}
    ended = settlement(job, LeaseExpired(running=False), **counted)
    await settle_leases(db, worker=None, settlements=[ended])
    ready = await row_of(db, "ready", job_id)
    assert ready is not None
    assert {name: ready[name] for name in counted} == counted | {"handbacks": 4}
    assert (ready["priority"], ready["attempt"]) == (7, 0)


async def test_a_released_job_keeps_its_place(db: Connection) -> None:
    await add_queue(db)
    first, second = (await submit(db))[0], (await submit(db))[0]
    job = await claim_one(db)
    assert job.job_id == first
    await settle(db, job, Released())
    assert [j.job_id for j in await claim(db, 2)] == [first, second]


async def test_a_running_attempt_has_a_duration_and_one_that_never_started_has_none(
    db: Connection,
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db, running=False), Unhandled())
    assert (await last_event(db, job_id))["duration_ms"] is None
    await db.execute("UPDATE jobqueue.scheduled SET due_at = now()")
    (other,) = await submit(db)
    job = await claim_one(db)
    await db.execute("UPDATE jobqueue.leases SET started_at = started_at - interval '90 s'")
    await settle(db, job)
    assert 90_000 <= int(str((await last_event(db, other))["duration_ms"])) < 150_000


@pytest.mark.parametrize("outcome", [Completed(), FAILURE], ids=["done", "failed"])
async def test_an_attempt_of_a_month_ends_like_any_other(db: Connection, outcome: Outcome) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db)
    await db.execute("UPDATE jobqueue.leases SET started_at = started_at - interval '30 days'")
    assert await settle(db, job, outcome) == "settled"
    assert (await last_event(db, job_id))["duration_ms"] == 2**31 - 1, "the most it can say"


@pytest.mark.parametrize(
    ("outcome", "then"),
    [(Completed(), "DONE"), (FAILURE, "FAILED"), (Refused("no"), "DEAD_LETTERED")],
    ids=["done", "failed", "dead"],
)
async def test_a_repeated_settle_hears_of_its_own_success(
    db: Connection, outcome: Outcome, then: str
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db)
    assert [await settle(db, job, outcome) for _ in range(2)] == ["settled"] * 2
    assert await status(db, job_id) == then


@pytest.mark.parametrize(
    "taken", [LeaseExpired(running=True), Refused("limit")], ids=["waiting", "dead"]
)
async def test_a_late_worker_cannot_settle_a_reclaimed_job(db: Connection, taken: Outcome) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db)
    await settle(db, job, taken, worker=None)
    before = await path(db, job_id)
    assert await settle(db, job) == "lost"
    assert await path(db, job_id) == before


@pytest.mark.parametrize("outcome", [Completed(), FAILURE], ids=["completed", "failed"])
async def test_a_wrong_token_or_worker_settles_nothing(db: Connection, outcome: Outcome) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db)
    assert await settle(db, job, outcome, worker=WORKER + 1) == "lost"
    wrong = replace(settlement(job, outcome), lease=Lease(job.lease.job, job.lease.token - 1))
    (answer,) = await settle_leases(db, worker=WORKER, settlements=[wrong])
    assert answer.state == "lost"
    assert await status(db, job_id) == "RUNNING"


async def test_a_job_that_was_never_started_is_not_completed(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db, running=False)
    assert await settle(db, job, Completed(b"early")) == "lost"
    assert await status(db, job_id) == "ASSIGNED"


async def test_of_two_outcomes_in_one_batch_the_first_counts(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 2)
    twice, once = await claim(db, 2)
    ends = [
        settlement(twice, FAILURE),
        settlement(once, Completed()),
        settlement(twice, Completed()),
    ]
    answers = await settle_leases(db, worker=WORKER, settlements=ends)
    assert sorted(a.state for a in answers) == ["settled", "settled"]
    assert await status(db, twice.job_id) == "FAILED"
    assert await status(db, once.job_id) == "DONE"


async def test_a_batch_of_all_outcomes_moves_each_job_by_its_own(db: Connection) -> None:
    await add_queue(db)
    await submit(db, len(ENDS), max_retries=3)
    jobs = await claim(db, len(ENDS))
    ends = [settlement(job, outcome) for job, (outcome, _, _) in zip(jobs, ENDS, strict=True)]
    await settle_leases(db, worker=WORKER, settlements=ends)
    places = {
        Fate.DONE: "DONE",
        Fate.WAIT: "FAILED",
        Fate.READY: "PENDING",
        Fate.DEAD: "DEAD_LETTERED",
    }
    for job, end in zip(jobs, ends, strict=True):
        assert await status(db, job.job_id) == places[end.fate]


async def test_the_widest_counters_can_be_stored(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    job = await claim_one(db)
    widest = Settlement(
        job.lease, Fate.WAIT, Reason.NO_HANDLER, counters=Counters(1_000, 1_000, 10, 1_000)
    )
    (answer,) = await settle_leases(db, worker=WORKER, settlements=[widest])
    assert answer.state == "settled"
    row = await row_of(db, "scheduled", job_id)
    assert row is not None
    assert (row["retries"], row["unhandled"]) == (1_000, 1_000)


@pytest.mark.direct
async def test_a_settle_waits_for_whoever_holds_its_row(db: Connection, another: Connect) -> None:
    await add_queue(db)
    await submit(db)
    job = await claim_one(db)
    holder = await another()
    async with holder.transaction():
        await holder.execute("SELECT FROM jobqueue.leases FOR UPDATE")
        await db.execute("SET lock_timeout = '50ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await settle(db, job)
    assert await settle(db, job) == "settled"


async def test_of_many_completions_those_that_are_lost_are_told_and_results_stay_with_their_jobs(
    db: Connection,
) -> None:
    await add_queue(db)
    ids = await submit(db, 3)
    first, second, third = (job.lease for job in await claim(db, 3))
    gone = Lease(second.job, third.token)
    done = {first: Completed(), third: Completed(b"r", truncated=True), gone: Completed(b"x")}
    assert await complete_leases(db, worker=WORKER, done=done) == {first, third}
    assert await complete_leases(db, worker=WORKER, done=done) == {first, third}, "again"
    jobs = [await get_job(db, job_id) for job_id in ids]
    assert [(job.status, job.result, job.result_truncated) for job in jobs if job] == [
        ("DONE", None, False),
        ("RUNNING", None, False),
        ("DONE", b"r", True),
    ]
