"""What operators and callers ask about jobs, queues, workers and the system."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

import pytest
import pytest_asyncio

from jobqueue.domain.job import JobFilter
from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Refused, Unhandled
from jobqueue.domain.queue import PolicyChange, QueuePolicy
from jobqueue.domain.state import JobStatus
from jobqueue.domain.worker import WorkerCommand
from jobqueue.errors import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)
from jobqueue.store import jobs as job_statements
from jobqueue.store import queues as queue_statements
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.workers import beat_worker, register_worker
from jobqueue.submission.jobs import Jobs
from jobqueue.submission.queues import Queues
from jobqueue.submission.system import System
from jobqueue.submission.workers import Workers
from tests.support.store import (
    FAILURE,
    add_queue,
    claim,
    claim_one,
    probes,
    settle,
    status,
    submit,
)
from tests.support.waiting import eventually
from tests.support.workers import facts


@dataclass
class Desk:
    jobs: Jobs
    queues: Queues
    workers: Workers
    system: System
    announced: list[str]


@pytest_asyncio.fixture
async def desk(db: Connection, pool: Pool) -> AsyncIterator[Desk]:
    announced: list[str] = []
    queues = Queues(pool, Limits(), QueuePolicy(max_retries=5), announced.extend)
    jobs = Jobs(pool, announced.extend)
    yield Desk(jobs, queues, Workers(pool), System(pool), announced)


async def test_a_job_nobody_knows_is_not_found_by_any_call(desk: Desk) -> None:
    nobody = uuid4()
    calls = [desk.jobs.get(nobody), desk.jobs.events(nobody, 10), desk.jobs.retry(nobody)]
    calls += [desk.jobs.delete(nobody), desk.jobs.cancel(nobody, running=True)]
    for call in calls:
        with pytest.raises(NotFound):
            await call


async def test_a_refusal_names_the_status_that_forbids_it(desk: Desk, db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await claim_one(db)
    for call in (
        desk.jobs.cancel(job_id, running=False),
        desk.jobs.retry(job_id),
        desk.jobs.delete(job_id),
    ):
        with pytest.raises(FailedPrecondition) as caught:
            await call
        assert caught.value.reason == "JOB_RUNNING"


async def test_cancel_retry_and_delete_say_what_they_did(desk: Desk, db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    assert await desk.jobs.cancel(job_id, running=False) == "CANCELLED"
    retried = await desk.jobs.retry(job_id)
    assert (retried.status, desk.announced) == ("PENDING", ["q"])
    job = await claim_one(db)
    assert await desk.jobs.cancel(job_id, running=True) == "CANCEL_REQUESTED"
    await settle(db, job, FAILURE)
    await desk.jobs.delete(job_id)
    assert await status(db, job_id) is None
    assert len(await db.fetch("SELECT FROM jobqueue.job_event_log")) == 7


async def test_a_job_of_a_deleted_queue_is_not_retried(desk: Desk, db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await desk.jobs.cancel(job_id, running=False)
    await desk.queues.delete("q", force=False)
    await desk.queues.create("q", PolicyChange({}))
    with pytest.raises(FailedPrecondition) as caught:
        await desk.jobs.retry(job_id)
    assert caught.value.reason == "QUEUE_DELETED"
    assert await status(db, job_id) == "DEAD_LETTERED"


async def test_pages_follow_their_tokens_to_the_end(desk: Desk, db: Connection) -> None:
    await add_queue(db)
    ids = await submit(db, 7)
    seen, token = [], ""
    while True:
        page = await desk.jobs.list(JobFilter(queue="q"), 3, token)
        seen += [job.job_id for job in page.jobs]
        if not page.next_page_token:
            break
        token = page.next_page_token
    assert seen == list(reversed(ids))


@pytest.mark.parametrize("which", [JobFilter(type="rare"), JobFilter(queue="small")])
async def test_rare_jobs_are_found_behind_any_number_of_others(
    desk: Desk, db: Connection, monkeypatch: pytest.MonkeyPatch, which: JobFilter
) -> None:
    monkeypatch.setattr(job_statements, "LOOKED_THROUGH", 5)
    for name in ("q", "small"):
        await add_queue(db, name)
    wanted = await submit(db, queue="small", type="rare")
    await submit(db, 12)
    wanted += await submit(db, queue="small", type="rare")
    await submit(db, 14)
    for job in await claim(db, 28, where=probes(("q", "small")), types=("t", "rare")):
        await settle(db, job)
    wanted += await submit(db, queue="small", type="rare")
    pages = [await desk.jobs.list(which, 2)]
    while token := pages[-1].next_page_token:
        pages.append(await desk.jobs.list(which, 2, token))
    assert [job.job_id for page in pages for job in page.jobs] == list(reversed(wanted))
    assert [page for page in pages[:-1] if not page.jobs], "some page had none"


async def test_a_list_that_an_index_leads_through_has_full_pages(
    desk: Desk, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_statements, "LOOKED_THROUGH", 1)
    await add_queue(db)
    ids = await submit(db, 6)
    for job in await claim(db, 6):
        await settle(db, job, Refused("no") if job.lease.job % 2 else None)
    dead = JobFilter(queue="q", statuses=frozenset({JobStatus.DEAD_LETTERED}))
    for which, count in ((JobFilter(), len(ids)), (dead, 3)):
        page = await desk.jobs.list(which, 10)
        assert (len(page.jobs), page.next_page_token) == (count, "")


@pytest.mark.parametrize("token", ["?", "AAAA", "MTox", "ZZ==" * 9, "LTE6YQ"])
async def test_a_made_up_page_token_is_an_invalid_argument(desk: Desk, token: str) -> None:
    with pytest.raises(InvalidArgument):
        await desk.jobs.list(JobFilter(), 10, token)


async def test_a_page_token_belongs_to_its_filter(desk: Desk, db: Connection) -> None:
    await add_queue(db)
    await submit(db, 2)
    page = await desk.jobs.list(JobFilter(), 1)
    with pytest.raises(InvalidArgument, match="another list"):
        await desk.jobs.list(JobFilter(queue="q"), 1, page.next_page_token)


async def test_a_watched_job_is_seen_at_every_change_until_it_ends(
    desk: Desk, db: Connection
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    seen: list[JobStatus] = []

    async def watch() -> None:
        async for job in desk.jobs.watch(job_id):
            seen.append(job.status)  # noqa: PERF401 - it is read while this goes on

    async def last_is(expected: JobStatus) -> bool:
        return seen[-1:] == [expected]

    watching = asyncio.create_task(watch())
    await eventually(lambda: last_is(JobStatus.PENDING))
    job = await claim_one(db)
    await eventually(lambda: last_is(JobStatus.RUNNING))
    await settle(db, job)
    await watching
    assert seen == ["PENDING", "RUNNING", "DONE"]


async def test_the_default_queue_is_made_once_and_cannot_be_deleted(desk: Desk) -> None:
    await desk.queues.ensure_default()
    await desk.queues.update("default", PolicyChange({"max_retries": 9}))
    await desk.queues.ensure_default()
    assert (await desk.queues.get("default")).policy.max_retries == 9
    for force in (False, True):
        with pytest.raises(FailedPrecondition):
            await desk.queues.delete("default", force=force)


async def test_a_change_sets_what_it_names_and_none_takes_the_default(desk: Desk) -> None:
    made = await desk.queues.create(
        "q", PolicyChange({"ttl_s": 60.0, "base_delay_s": 1.0, "priority_weights": {9: 2}})
    )
    assert (made.policy.max_retries, made.policy.ttl_s) == (5, 60.0)
    changed = await desk.queues.update("q", PolicyChange({"max_retries": 1, "max_running": 3}))
    assert (changed.policy.ttl_s, changed.policy.max_running) == (60.0, 3)
    cleared = await desk.queues.update(
        "q",
        PolicyChange(
            dict.fromkeys(
                ("max_retries", "ttl_s", "base_delay_s", "priority_weights", "max_running")
            )
        ),
    )
    assert cleared.policy == QueuePolicy(max_retries=5)
    assert desk.announced == ["q", "q"]


async def test_bad_names_policies_and_windows_are_refused(desk: Desk) -> None:
    with pytest.raises(InvalidArgument):
        await desk.queues.create("a b", PolicyChange({}))
    await desk.queues.create("q", PolicyChange({}))
    with pytest.raises(AlreadyExists):
        await desk.queues.create("q", PolicyChange({}))
    with pytest.raises(InvalidArgument):
        await desk.queues.update("q", PolicyChange({"max_retries": -1}))
    with pytest.raises(InvalidArgument):
        await desk.queues.stats("q", 0.0)


async def test_an_unknown_queue_is_not_found_by_any_call(desk: Desk) -> None:
    for call in (
        desk.queues.get("x"),
        desk.queues.update("x", PolicyChange({})),
        desk.queues.pause("x"),
        desk.queues.resume("x"),
        desk.queues.delete("x", force=True),
        desk.queues.stats("x", 60.0),
    ):
        with pytest.raises(NotFound):
            await call


async def test_updates_of_different_fields_at_once_are_both_kept(desk: Desk) -> None:
    await desk.queues.create("q", PolicyChange({}))
    await asyncio.gather(
        desk.queues.update("q", PolicyChange({"max_retries": 1})),
        desk.queues.update("q", PolicyChange({"max_running": 2})),
        desk.queues.update("q", PolicyChange({"ttl_s": 3.0})),
    )
    policy = (await desk.queues.get("q")).policy
    assert (policy.max_retries, policy.max_running, policy.ttl_s) == (1, 2, 3.0)


async def test_a_queue_that_keeps_changing_is_aborted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.queues.create("q", PolicyChange({}))

    async def always_late(*_: object) -> None:
        return None

    monkeypatch.setattr(queue_statements, "update_queue", always_late)
    with pytest.raises(Aborted):
        await desk.queues.update("q", PolicyChange({"max_retries": 1}))


async def test_pause_and_resume_show_and_only_resume_is_announced(desk: Desk) -> None:
    await desk.queues.create("q", PolicyChange({}))
    assert (await desk.queues.pause("q")).paused
    assert not (await desk.queues.resume("q")).paused
    assert desk.announced == ["q"]
    assert [queue.name for queue in await desk.queues.list()] == ["q"]


async def test_a_forced_deletion_answers_when_no_live_job_is_left(
    desk: Desk, db: Connection
) -> None:
    await add_queue(db)
    await submit(db, 3)
    running = await claim_one(db)
    with pytest.raises(FailedPrecondition) as caught:
        await desk.queues.delete("q", force=False)
    assert caught.value.reason == "QUEUE_NOT_EMPTY"
    deletion = asyncio.create_task(desk.queues.delete("q", force=True))
    await eventually(lambda: asked_to_stop(db))
    assert not deletion.done()
    await settle(db, running, FAILURE)
    assert await deletion == 3
    assert await status(db, running.job_id) == "DEAD_LETTERED"


async def asked_to_stop(db: Connection) -> bool:
    return bool(await db.fetchval("SELECT bool_and(cancel_requested) FROM jobqueue.leases"))


async def test_workers_are_commanded_by_name(desk: Desk, db: Connection) -> None:
    number = await register_worker(db, facts("w-1"))
    await desk.workers.drain("w-1")
    assert await beat_worker(db, number) is WorkerCommand.DRAIN
    await desk.workers.shutdown("w-1")
    assert await beat_worker(db, number) is WorkerCommand.SHUTDOWN
    for call in (desk.workers.drain("w-2"), desk.workers.shutdown("w-2")):
        with pytest.raises(NotFound):
            await call


async def test_the_system_tells_its_database_and_who_waits_for_a_handler(
    desk: Desk, db: Connection
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, type="x")
    await settle(db, await claim_one(db, running=False), Unhandled())
    assert await desk.system.unhandled() == [("q", "x", 1)]
    assert (await desk.system.database()).split(".")[0] in {"15", "16", "17", "18"}
    await desk.jobs.retry(job_id)
    await settle(db, await claim_one(db, running=False), Refused(""))
    assert (await desk.queues.stats("q", 60.0))[0].depth[JobStatus.DEAD_LETTERED] == 1
