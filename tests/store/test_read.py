"""Looking jobs up: every field in every status, events, and pages."""

from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from jobqueue.domain.job import JobFilter
from jobqueue.domain.outcome import Postponed, Refused, Released, Unhandled
from jobqueue.domain.state import JobStatus, event_type
from jobqueue.store.jobs import (
    NEWEST,
    cancel_job,
    get_job,
    list_job_events,
    list_jobs,
    retry_job,
)
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import promote_jobs
from jobqueue.store.workers import register_worker
from tests.support.store import (
    FAILURE,
    add_queue,
    claim,
    claim_one,
    delete_queue,
    make_due,
    settle,
    submit,
)
from tests.support.workers import facts


async def last_error(db: Connection, job_id: UUID) -> str | None:
    job = await get_job(db, job_id)
    assert job is not None
    return job.last_error


async def test_an_unknown_job_is_none_and_has_no_events(db: Connection) -> None:
    assert await get_job(db, uuid4()) is None
    assert await list_job_events(db, uuid4()) == []


async def test_a_job_shows_its_worker_and_times_while_it_is_held_and_after(db: Connection) -> None:
    await add_queue(db)
    number = await register_worker(db, facts("w-1"))
    (job_id,) = await submit(db)
    claimed = await claim_one(db, worker=number)
    running = await get_job(db, job_id)
    assert running is not None
    assert (running.status, running.reason, running.worker_id) == ("RUNNING", "STARTED", "w-1")
    assert (running.attempt, running.retry_count) == (1, 0)
    assert running.started_at is not None
    assert running.finished_at is None
    await settle(db, claimed, worker=number)
    done = await get_job(db, job_id)
    assert done is not None
    assert (done.status, done.reason, done.worker_id) == ("DONE", "COMPLETED", "w-1")
    assert done.finished_at is not None


async def test_a_failed_job_shows_why_and_until_when_it_waits(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), FAILURE)
    job = await get_job(db, job_id)
    assert job is not None
    assert (job.status, job.reason, job.retry_count) == ("FAILED", "HANDLER_FAILED", 1)
    assert job.last_error == "boom"
    assert job.not_before is not None


async def test_the_last_error_stays_through_retry_and_success_ends_it(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), FAILURE)
    await make_due(db)
    await promote_jobs(db, 1)
    assert await last_error(db, job_id) == "boom"
    job = await claim_one(db)
    assert await last_error(db, job_id) == "boom"
    await settle(db, job)
    assert await last_error(db, job_id) is None


@pytest.mark.parametrize("outcome", [Released("shutdown"), Postponed(0.0, "later")])
async def test_an_attempt_that_was_handed_back_is_no_error(
    db: Connection, outcome: Released | Postponed
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), outcome)
    assert await last_error(db, job_id) is None


async def test_a_job_without_a_handler_says_so(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db, running=False), Unhandled("nobody has a handler for t"))
    assert await last_error(db, job_id) == "nobody has a handler for t"


async def test_the_error_of_a_dead_job_ends_with_its_life(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), Refused("never"))
    assert await last_error(db, job_id) == "never"
    await retry_job(db, job_id)
    assert await last_error(db, job_id) is None


async def test_a_job_cancelled_after_a_failure_still_shows_it(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db), FAILURE)
    await cancel_job(db, job_id, running=False)
    job = await get_job(db, job_id)
    assert job is not None
    assert (job.reason, job.last_error) == ("CANCELLED", "boom")


async def test_events_tell_every_move_with_its_type(db: Connection) -> None:
    await add_queue(db)
    number = await register_worker(db, facts("w-1"))
    (job_id,) = await submit(db, max_retries=0)
    await settle(db, await claim_one(db, worker=number), FAILURE, worker=number)
    events = await list_job_events(db, job_id)
    assert [e.type for e in events] == [
        "job.submitted",
        "job.assigned",
        "job.started",
        "job.failed",
        "job.dead-lettered",
    ]
    assert [e.sequence for e in events] == [1, 2, 3, 4, 5]
    assert [e.detail for e in events] == [None, None, None, "boom", None]
    assert [e.worker_id for e in events] == [None, "w-1", "w-1", "w-1", "w-1"]
    assert [e.event_id for e in events] == sorted(e.event_id for e in events)
    assert all(a.at <= b.at for a, b in pairwise(events))
    assert event_type(None, JobStatus.PENDING) == events[0].type


async def test_a_page_of_events_goes_on_after_a_sequence_also_in_what_is_kept(
    db: Connection,
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, max_retries=0)
    await settle(db, await claim_one(db), FAILURE)
    await db.execute(
        "INSERT INTO jobqueue.job_events_kept SELECT * FROM jobqueue.job_events WHERE seq < 4"
    )
    pages = [await list_job_events(db, job_id, after=after, limit=2) for after in (0, 2, 4, 5)]
    assert [[event.sequence for event in page] for page in pages] == [[1, 2], [3, 4], [5], []]


async def in_every_status(db: Connection) -> dict[str, UUID]:
    """Make one job in each status, oldest first: DONE, DEAD_LETTERED, FAILED, …"""
    made: dict[str, UUID] = {}
    for name, outcome in (("DONE", None), ("DEAD_LETTERED", Refused("")), ("FAILED", FAILURE)):
        (made[name],) = await submit(db)
        await settle(db, await claim_one(db), outcome)
    for name in ("RUNNING", "ASSIGNED"):
        (made[name],) = await submit(db)
        await claim_one(db, running=name == "RUNNING")
    (made["PENDING"],) = await submit(db)
    return made


async def listed(db: Connection, limit: int = 100, **fields: object) -> list[UUID]:
    which = JobFilter(**fields)  # type: ignore[arg-type]
    return [one.job.job_id for one in await list_jobs(db, which, before=NEWEST, limit=limit)]


async def test_a_list_shows_exactly_the_wanted_statuses_newest_first(db: Connection) -> None:
    await add_queue(db)
    made = await in_every_status(db)
    assert await listed(db) == list(reversed(made.values()))
    for name, job_id in made.items():
        assert await listed(db, statuses=frozenset({JobStatus(name)})) == [job_id]
    finished = frozenset({JobStatus.DONE, JobStatus.DEAD_LETTERED})
    assert await listed(db, statuses=finished) == [made["DEAD_LETTERED"], made["DONE"]]


async def test_a_delayed_job_is_listed_as_pending(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, delay_s=60.0)
    assert await listed(db, statuses=frozenset({JobStatus.PENDING})) == [job_id]
    assert await listed(db, statuses=frozenset({JobStatus.FAILED})) == []


async def test_a_list_is_narrowed_by_queue_and_type(db: Connection) -> None:
    for name in ("q", "other"):
        await add_queue(db, name)
    (wanted,) = await submit(db, type="x")
    await submit(db)
    await submit(db, queue="other", type="x")
    assert await listed(db, queue="q", type="x") == [wanted]
    assert await listed(db, queue="nowhere") == []


async def test_finished_jobs_of_a_deleted_queue_stay_readable(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await settle(db, await claim_one(db))
    await delete_queue(db, "q", force=False)
    assert await listed(db, queue="q") == [job_id]
    assert (await get_job(db, job_id)) is not None


async def test_pages_neither_skip_nor_repeat_while_jobs_move(db: Connection) -> None:
    await add_queue(db)
    ids = await submit(db, 30)
    seen: list[UUID] = []
    before = NEWEST
    while page := await list_jobs(db, JobFilter(), before=before, limit=7):
        seen += [one.job.job_id for one in page]
        before = page[-1].place
        for job in (await claim(db, 5))[:3]:
            await settle(db, job)
        await submit(db, 2)
    assert seen == list(reversed(ids))
