"""Whoever writes a transition says so, once, whatever becomes of the answers (R-7.1)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
import pytest_asyncio

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Completed, Failed, Outcome, Postponed, Refused, Released
from jobqueue.domain.queue import QueuePolicy
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.lease import desk as desk_room
from jobqueue.lease import direct
from jobqueue.lease.backing import DatabaseBacking
from jobqueue.lease.desk import Desk
from jobqueue.lease.signals import RETRIES_CHARGED
from jobqueue.lease.takeover import Takeover, expired, unstarted
from jobqueue.lease.tally import tell_claimed
from jobqueue.reaper.scheduler import Promoter, TtlExpirer
from jobqueue.reaper.signals import JOBS_PROMOTED
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.signals import JOBS_MOVED, Move
from jobqueue.submission import submitter as submitter_room
from jobqueue.submission.jobs import Jobs
from jobqueue.submission.queues import Queues
from jobqueue.submission.submitter import Submitter
from tests.support.leases import QUICK, open_leases, presence_on, reconciler
from tests.support.remote import make_desk
from tests.support.settling import settled
from tests.support.store import WORKER, add_queue, claim, end_ttl, expire_leases, make_due, spec
from tests.support.workers import facts

RECORD = "SELECT queue, to_status, reason FROM jobqueue.job_event_log"
CUT = ConnectionResetError("the answer was lost")


@pytest_asyncio.fixture(autouse=True)
async def told(db: Connection) -> AsyncIterator[Counter[Move]]:
    """What was said; after the test it must be what is on record."""
    said: Counter[Move] = Counter()
    stop = JOBS_MOVED.subscribe(said.update)
    yield said
    stop()
    record = Counter(Move(*row) for row in await db.fetch(RECORD))
    assert said == record


@pytest_asyncio.fixture
async def submitter(db: Connection, pool: Pool) -> AsyncIterator[Submitter]:
    await add_queue(db)
    one = Submitter(pool, Limits(), lambda queues: None)
    yield one
    await one.close()


@pytest.fixture
def desk(pool: Pool, database: str) -> Desk:
    return make_desk(pool, database)


def move(status: str, reason: str) -> Move:
    return Move("q", JobStatus(status), Reason(reason))


async def claimed(db: Connection, n: int = 1, *, running: bool = True) -> list[LeasedJob]:
    jobs = await claim(db, n, running=running)
    tell_claimed(jobs)
    return jobs


def cut_first(
    monkeypatch: pytest.MonkeyPatch, room: object, name: str, *, written: bool = True
) -> None:
    """Let the first call do its work, or not, and lose its answer."""
    real: Callable[..., Awaitable[object]] = getattr(room, name)
    calls: list[object] = []

    async def cut(*arguments: Any, **named: Any) -> object:
        first = not calls
        calls.append(await real(*arguments, **named) if written or not first else None)
        if first:
            raise CUT
        return calls[-1]

    monkeypatch.setattr(room, name, cut)


async def test_a_submission_that_is_repeated_is_told_once(submitter: Submitter) -> None:
    for _ in range(2):
        await submitter.submit(spec(), request_id="r" * 16)
        await submitter.submit(spec(idempotency_key="k"))
        await submitter.submit_many([spec(), spec(idempotency_key="b")], request_id="b" * 16)


async def test_a_submission_whose_answer_was_lost_is_told(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_first(monkeypatch, submitter_room, "submit_jobs")
    await submitter.submit_many([spec(), spec()])


@pytest.mark.parametrize("written", [True, False])
async def test_ends_of_several_kinds_are_told_once_though_their_second_statement_failed(
    submitter: Submitter,
    told: Counter[Move],
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    written: bool,
) -> None:
    cut_first(monkeypatch, direct, "settle_leases", written=written)
    await submitter.submit_many([spec()] * 3)
    async with open_leases(database) as leases:
        jobs = await leases.claim(3, running=True)
        ends: Sequence[Outcome] = (Completed(), Failed("x"), Postponed(60.0))
        answers = [settled(leases, job, end) for job, end in zip(jobs, ends, strict=True)]
        assert await asyncio.gather(*answers) == [True] * 3
    assert told[move("DONE", "COMPLETED")] == 1


async def test_what_a_remote_worker_repeats_is_told_once(
    submitter: Submitter, desk: Desk, db: Connection, told: Counter[Move]
) -> None:
    await submitter.submit_many([spec()] * 4)
    leases = [job.lease for job in await claimed(db, 4, running=False)]
    for _ in range(2):
        await desk.start(WORKER, leases[:3])
    ends: Sequence[Outcome] = (Completed(), Failed("x"), Refused("x"))
    outcomes = dict(zip(leases, ends, strict=False))
    for _ in range(2):
        await desk.settle(WORKER, outcomes)
    assert await desk.release(WORKER, leases[3:]) == 1
    assert told[move("RUNNING", "STARTED")] == 3


async def test_a_start_and_a_settlement_whose_answers_were_lost_are_told(
    submitter: Submitter, desk: Desk, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submitter.submit_many([spec()] * 2)
    leases = [job.lease for job in await claimed(db, 2, running=False)]
    cut_first(monkeypatch, desk_room, "start_leases")
    await desk.start(WORKER, leases)
    cut_first(monkeypatch, desk_room, "settle_leases")
    await desk.settle(WORKER, dict(zip(leases, (Completed(), Failed("x")), strict=True)))


async def test_a_job_whose_ttl_is_over_at_its_start_is_told_as_dead(
    submitter: Submitter, desk: Desk, db: Connection, told: Counter[Move]
) -> None:
    await submitter.submit(spec(ttl_s=600.0))
    leases = [job.lease for job in await claimed(db, running=False)]
    await end_ttl(db)
    await desk.start(WORKER, leases)
    assert told[move("DEAD_LETTERED", "TTL_EXPIRED")] == 1


async def test_an_outcome_that_met_a_cancel_request_is_told_as_cancelled(
    submitter: Submitter, desk: Desk, db: Connection, pool: Pool, told: Counter[Move]
) -> None:
    await submitter.submit(spec())
    (job,) = await claimed(db)
    await Jobs(pool, lambda queues: None).cancel(job.job_id, running=True)
    await desk.settle(WORKER, {job.lease: Released()})
    assert told[move("DEAD_LETTERED", "CANCELLED")] == 1
    assert told[move("PENDING", "RELEASED")] == 0


async def test_what_operators_do_is_told(
    submitter: Submitter, db: Connection, pool: Pool, told: Counter[Move]
) -> None:
    jobs, queues = Jobs(pool, lambda q: None), Queues(pool, Limits(), QueuePolicy(), lambda q: None)
    made = await submitter.submit(spec())
    await jobs.cancel(made.job_id, running=False)
    await jobs.retry(made.job_id)
    await jobs.cancel(made.job_id, running=False)
    await jobs.delete(made.job_id)
    await submitter.submit_many([spec(), spec(delay_s=60.0)])
    assert await queues.delete("q", force=True) == 2
    assert told[move("DEAD_LETTERED", "CANCELLED")] == 4


async def test_what_the_reaper_and_the_scheduler_do_is_told(
    submitter: Submitter, db: Connection, pool: Pool
) -> None:
    retries: Counter[str] = Counter()
    promoted: list[Mapping[str, int]] = []
    stops = [RETRIES_CHARGED.subscribe(retries.update), JOBS_PROMOTED.subscribe(promoted.append)]
    await submitter.submit_many([spec()] * 2)
    await claimed(db)
    await claimed(db, running=False)
    await db.execute("UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '1 h'")
    await Takeover(unstarted(60.0), page_size=10, crash_limit=3).step(db)
    await expire_leases(db)
    await Takeover(expired(), page_size=10, crash_limit=3).step(db)
    await submitter.submit_many([spec(delay_s=60.0), spec(ttl_s=600.0)])
    await make_due(db)
    await Promoter(pool).act()
    await end_ttl(db)
    await TtlExpirer(pool).act()
    for stop in stops:
        stop()
    assert retries == {"q": 2}
    assert promoted == [{"q": 3}]


async def test_a_job_that_dies_with_its_worker_is_told_as_dead(
    submitter: Submitter, db: Connection, told: Counter[Move]
) -> None:
    await submitter.submit_many([spec(max_retries=0)])
    await claimed(db)
    await expire_leases(db)
    await Takeover(expired(), page_size=10, crash_limit=3).step(db)
    assert told[move("FAILED", "LEASE_EXPIRED")] == 1
    assert told[move("DEAD_LETTERED", "RETRIES_EXHAUSTED")] == 1


async def test_a_claim_that_was_cut_off_is_told_when_it_is_handed_back(
    submitter: Submitter, db: Connection, database: str
) -> None:
    await submitter.submit_many([spec()] * 2)
    lost = [job.lease for job in (*await claim(db), *await claim(db, running=False))]
    await db.execute("UPDATE jobqueue.leases SET claimed_at = claimed_at - interval '1 min'")
    backing = DatabaseBacking(database, QUICK, facts(), lambda: None)
    looking = reconciler(backing, presence_on(backing, lambda message: None), lambda message: None)
    try:
        await looking.turn()
        await looking.hand_back(lost)
    finally:
        await backing.close()
