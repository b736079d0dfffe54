"""What an operator did and whose answer was lost on the wire is not refused for its own success."""

from collections.abc import Awaitable, Callable
from types import ModuleType
from uuid import UUID

import pytest

from jobqueue.domain.job import CancelOutcome
from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Completed, Refused
from jobqueue.domain.queue import PolicyChange, Queue, QueuePolicy
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.errors import AlreadyExists, FailedPrecondition, NotFound
from jobqueue.store import jobs as store
from jobqueue.store import queues as queue_store
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.signals import JOBS_MOVED, Move
from jobqueue.submission.jobs import Jobs
from jobqueue.submission.queues import Queues
from tests.support.store import add_queue, claim_one, path, settle, submit

Meanwhile = Callable[[], Awaitable[object]]


async def nothing() -> None:
    """Happens between most tries."""


def cut_the_first_answer(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    home: ModuleType = store,
    meanwhile: Meanwhile = nothing,
) -> list[object]:
    """Let the first call do its work and lose its answer; return what was answered.

    ``meanwhile`` is what others do before the second call.
    """
    real: Callable[..., Awaitable[object]] = getattr(home, name)
    answered: list[object] = []

    async def cut(*arguments: object, **named: object) -> object:
        answer = await real(*arguments, **named)
        answered.append(answer.word if isinstance(answer, store.Answer) else answer)
        if len(answered) == 1:
            await meanwhile()
            raise ConnectionResetError("the answer was lost")
        return answer

    monkeypatch.setattr(home, name, cut)
    return answered


async def job(db: Connection) -> UUID:
    await add_queue(db)
    (job_id,) = await submit(db)
    return job_id


async def dead(db: Connection) -> UUID:
    job_id = await job(db)
    await settle(db, await claim_one(db), Refused("no"))
    return job_id


def desk(pool: Pool) -> Jobs:
    return Jobs(pool, lambda queues: None)


def queue_desk(pool: Pool) -> Queues:
    return Queues(pool, Limits(), QueuePolicy(), lambda queues: None)


async def test_a_cancel_that_was_done_is_told_as_done(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await job(db)
    answered = cut_the_first_answer(monkeypatch, "cancel_job")
    assert await desk(pool).cancel(job_id, running=False) is CancelOutcome.CANCELLED
    assert answered == ["CANCELLED", "DEAD_LETTERED"]
    assert (await path(db, job_id))[1:] == ["DEAD_LETTERED:CANCELLED"]


async def test_a_repeated_cancel_of_a_job_that_ended_otherwise_is_still_refused(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await job(db)
    await settle(db, await claim_one(db), Completed())
    answered = cut_the_first_answer(monkeypatch, "cancel_job")
    with pytest.raises(FailedPrecondition):
        await desk(pool).cancel(job_id, running=True)
    assert answered == ["DONE", "DONE"]


async def test_a_retry_that_was_done_is_told_as_done(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await dead(db)
    answered = cut_the_first_answer(monkeypatch, "retry_job")
    assert (await desk(pool).retry(job_id)).status == "PENDING"
    assert answered == ["RETRIED", "PENDING"]
    assert (await path(db, job_id)).count("PENDING:OPERATOR_RETRY") == 1


async def test_a_retry_whose_job_is_already_run_again_is_told_as_done_and_counted(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await dead(db)
    said: list[Move] = []
    stop = JOBS_MOVED.subscribe(said.extend)
    answered = cut_the_first_answer(monkeypatch, "retry_job", meanwhile=lambda: claim_one(db))
    assert (await desk(pool).retry(job_id)).status == "RUNNING"
    stop()
    assert answered == ["RETRIED", "RUNNING"]
    assert said == [Move("q", JobStatus.PENDING, Reason.OPERATOR_RETRY)]


async def test_a_repeated_retry_of_a_job_that_runs_since_an_earlier_one_is_still_refused(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await dead(db)
    await desk(pool).retry(job_id)
    await claim_one(db)
    answered = cut_the_first_answer(monkeypatch, "retry_job")
    with pytest.raises(FailedPrecondition):
        await desk(pool).retry(job_id)
    assert answered == ["RUNNING", "RUNNING"]


async def test_a_repeated_retry_of_a_job_that_ended_otherwise_is_still_refused(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await job(db)
    await settle(db, await claim_one(db), Completed())
    answered = cut_the_first_answer(monkeypatch, "retry_job")
    with pytest.raises(FailedPrecondition):
        await desk(pool).retry(job_id)
    assert answered == ["DONE", "DONE"]


async def test_a_delete_that_was_done_is_told_as_done(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await dead(db)
    answered = cut_the_first_answer(monkeypatch, "delete_job")
    await desk(pool).delete(job_id)
    assert answered == ["DELETED", "NOT_FOUND"]


async def test_without_a_cut_a_second_move_is_refused(db: Connection, pool: Pool) -> None:
    job_id = await job(db)
    await desk(pool).cancel(job_id, running=False)
    with pytest.raises(FailedPrecondition):
        await desk(pool).cancel(job_id, running=False)
    await desk(pool).delete(job_id)
    with pytest.raises(NotFound):
        await desk(pool).delete(job_id)


ASKED = PolicyChange({"max_retries": 7, "priority_weights": {9: 100}, "ttl_s": 0.1})


async def test_a_queue_that_was_made_is_told_as_made(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = cut_the_first_answer(monkeypatch, "create_queue", home=queue_store)
    made = await queue_desk(pool).create("q", ASKED)
    assert answered == [made, None]
    assert [made] == await queue_desk(pool).list()


async def test_a_repeated_creation_that_meets_a_queue_of_others_is_still_refused(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = queue_desk(pool)
    answered = cut_the_first_answer(
        monkeypatch,
        "create_queue",
        home=queue_store,
        meanwhile=lambda: queues.update("q", PolicyChange({"max_retries": 8})),
    )
    with pytest.raises(AlreadyExists):
        await queues.create("q", ASKED)
    assert isinstance(answered[0], Queue)
    assert answered[1:] == [None]
    await add_queue(db, "old")
    with pytest.raises(AlreadyExists):
        await queues.create("old", PolicyChange({}))
    assert len(answered) == 2, "nobody tries to make what is there already"


async def test_a_queue_that_was_deleted_is_told_as_deleted_once_its_jobs_are_cancelled(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await job(db)
    answered = cut_the_first_answer(monkeypatch, "delete_queue", home=queue_store)
    assert await queue_desk(pool).delete("q", force=True) == 1
    assert answered == [True, True]
    assert (await path(db, job_id))[-1] == "DEAD_LETTERED:CANCELLED"


async def test_a_repeated_deletion_leaves_the_queue_alone_that_has_the_name_by_now(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_queue(db)
    cut_the_first_answer(
        monkeypatch, "delete_queue", home=queue_store, meanwhile=lambda: add_queue(db)
    )
    await queue_desk(pool).delete("q", force=True)
    assert [queue.name for queue in await queue_desk(pool).list()] == ["q"]


async def test_a_repeated_deletion_of_a_queue_with_jobs_is_still_refused(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await job(db)
    answered = cut_the_first_answer(monkeypatch, "delete_queue", home=queue_store)
    with pytest.raises(FailedPrecondition):
        await queue_desk(pool).delete("q", force=False)
    assert answered == [False, False]


async def test_without_a_cut_a_second_creation_or_deletion_is_refused(pool: Pool) -> None:
    queues = queue_desk(pool)
    await queues.create("q", ASKED)
    with pytest.raises(AlreadyExists):
        await queues.create("q", ASKED)
    await queues.delete("q", force=False)
    with pytest.raises(NotFound):
        await queues.delete("q", force=True)
