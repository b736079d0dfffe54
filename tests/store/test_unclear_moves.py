"""An operator's move whose answer was lost on the wire is not refused for its own success."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from jobqueue.domain.job import CancelOutcome
from jobqueue.domain.outcome import Completed, Refused
from jobqueue.errors import FailedPrecondition, NotFound
from jobqueue.store import jobs as store
from jobqueue.store.pool import Connection, Pool
from jobqueue.submission.jobs import Jobs
from tests.support.store import add_queue, claim_one, path, settle, submit


def cut_the_first_answer(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Let the first call do its work and lose its answer; return what was answered."""
    real: Callable[..., Awaitable[store.Answer | str]] = getattr(store, name)
    answered: list[str] = []

    async def cut(*arguments: object, **named: object) -> store.Answer | str:
        answer = await real(*arguments, **named)
        answered.append(answer.word if isinstance(answer, store.Answer) else answer)
        if len(answered) == 1:
            raise ConnectionResetError("the answer was lost")
        return answer

    monkeypatch.setattr(store, name, cut)
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
