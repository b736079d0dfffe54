"""Figures of queues: exact after any history, with the roller on and off (R-5.2)."""

import math
import random
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import (
    Completed,
    LeaseExpired,
    Outcome,
    Postponed,
    Refused,
    Released,
    Unhandled,
)
from jobqueue.domain.queue import QueueStats
from jobqueue.domain.state import JobStatus
from jobqueue.store.jobs import cancel_job, delete_job, retry_job
from jobqueue.store.leases import start_leases
from jobqueue.store.pool import Connection
from jobqueue.store.queues import get_queue_stats
from jobqueue.store.upkeep import (
    expire_jobs,
    promote_jobs,
    prune_jobs,
    prune_minutes,
    roll_stats,
)
from tests.store.conftest import Connect
from tests.support.soundness import counted_depths, real_depths
from tests.support.store import (
    FAILURE,
    WORKER,
    add_queue,
    claim,
    claim_one,
    end_ttl,
    make_due,
    probes,
    set_clock_back,
    settle,
    submit,
)

OUTCOMES: list[Outcome] = [
    Completed(),
    FAILURE,
    Refused("no"),
    Postponed(1.0),
    Released(),
    Unhandled(),
    LeaseExpired(running=True),
]
QUEUES = ("a", "b")


@dataclass
class Life:
    """Random moves of many jobs, by a seed."""

    db: Connection
    chance: random.Random
    held: list[LeasedJob] = field(default_factory=list)
    done: int = 0

    async def move(self) -> None:
        """Do one thing that anybody might do."""
        await self.chance.choice(
            [self._submit, self._claim, self._claim, self._settle, self._settle, self._start,
             self._time, self._operator, self._remove]
        )()  # fmt: skip

    async def _submit(self) -> None:
        delay_s, ttl_s = self.chance.choice([0.0, 60.0]), self.chance.choice([None, 60.0])
        queue, n = self.chance.choice(QUEUES), self.chance.randint(1, 4)
        await submit(self.db, n, queue=queue, delay_s=delay_s, ttl_s=ttl_s, max_retries=1)

    async def _claim(self) -> None:
        n, running = self.chance.randint(1, 4), self.chance.random() < 0.7
        self.held += await claim(self.db, n, where=probes(QUEUES), running=running)

    async def _start(self) -> None:
        leases = [job.lease for job in self.held if not job.running]
        await start_leases(self.db, worker=WORKER, leases=leases, lease_s=60.0)

    async def _settle(self) -> None:
        if not self.held:
            return
        job = self.held.pop(self.chance.randrange(len(self.held)))
        running = await self.db.fetchval(
            "SELECT running FROM jobqueue.leases WHERE id = $1", job.lease.job
        )
        outcome = self.chance.choice(OUTCOMES) if running else Released()
        if await settle(self.db, job, outcome) == "settled" and isinstance(outcome, Completed):
            self.done += 1

    async def _time(self) -> None:
        await make_due(self.db)
        await promote_jobs(self.db, 3)
        if self.chance.random() < 0.2:
            await end_ttl(self.db)
            await expire_jobs(self.db, 2)

    async def _operator(self) -> None:
        job_id = await self._anyone()
        if self.chance.random() < 0.5:
            await retry_job(self.db, job_id)
        else:
            await cancel_job(self.db, job_id, running=True)

    async def _remove(self) -> None:
        if self.chance.random() < 0.5:
            await prune_jobs(self.db, after=0, retention_s=0.0, limit=3)
        else:
            await delete_job(self.db, await self._anyone())

    async def _anyone(self) -> UUID:
        rows = await self.db.fetch("SELECT job_id FROM jobqueue.jobs ORDER BY id")
        return self.chance.choice(rows)["job_id"] if rows else uuid4()


async def one(db: Connection, window_s: float = 3600.0) -> QueueStats:
    (stats,) = await get_queue_stats(db, "q", window_s)
    return stats


@pytest.mark.direct
@pytest.mark.parametrize("rolls", [0.0, 0.3], ids=["never rolled", "rolled now and then"])
async def test_figures_are_exact_after_any_history(db: Connection, rolls: float) -> None:
    for name in QUEUES:
        await add_queue(db, name)
    life = Life(db, random.Random(11))
    for step in range(400):
        await life.move()
        if life.chance.random() < rolls:
            await roll_stats(db)
        if step % 25 == 0:
            assert await counted_depths(db) == await real_depths(db)
    stats = await get_queue_stats(db, None, 3600.0)
    assert sum(s.done_total for s in stats) == life.done > 0


async def test_rolling_changes_no_figure(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 5)
    outcomes: list[Outcome] = [Completed(), FAILURE, Refused("no")]
    for job, outcome in zip(await claim(db, 3), outcomes, strict=True):
        await settle(db, job, outcome)
    before = await one(db)
    assert await roll_stats(db) == 5 + 6 + 4
    after = await one(db)
    assert await roll_stats(db) == 0
    assert (before.depth, before.done_total, before.dead_total, before.error_rate) == (
        after.depth,
        after.done_total,
        after.dead_total,
        after.error_rate,
    )
    assert before.average_processing_s == after.average_processing_s


async def test_totals_keep_what_was_pruned_and_deleted(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 4)
    for job in await claim(db, 4):
        await settle(db, job, Completed() if job.lease.job % 2 else Refused("no"))
    await roll_stats(db)
    await prune_jobs(db, after=0, retention_s=0.0, limit=10)
    for row in await db.fetch("SELECT job_id FROM jobqueue.jobs"):
        await delete_job(db, row["job_id"])
    stats = await one(db)
    assert (stats.done_total, stats.dead_total) == (2, 2)
    assert set(stats.depth.values()) == {0}


async def test_rates_count_attempts_that_ran_and_were_not_handed_back(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 6)
    outcomes: list[Outcome] = [Completed(), Completed(), Completed(), FAILURE]
    outcomes += [Released(), Postponed(9.0)]
    jobs = await claim(db, 6)
    await db.execute("UPDATE jobqueue.leases SET started_at = started_at - interval '1 h'")
    for job, outcome in zip(jobs, outcomes, strict=True):
        await settle(db, job, outcome)
    told = await one(db)
    assert told.error_rate == 0.25
    assert told.average_processing_s == pytest.approx(3_600.0, abs=60.0)
    await roll_stats(db)
    rolled = await one(db)
    assert (rolled.error_rate, rolled.average_processing_s) == (0.25, told.average_processing_s)


@pytest.mark.direct
@pytest.mark.parametrize("rolled", [True, False])
async def test_what_ended_before_the_window_is_not_in_its_rates(
    bare: Connection, *, rolled: bool
) -> None:
    await add_queue(bare)
    await submit(bare, 2)
    for job in await claim(bare, 2):
        await settle(bare, job, FAILURE)
    await bare.execute("SET session_replication_role = replica")
    await bare.execute("ALTER TABLE jobqueue.job_events DISABLE TRIGGER job_events_immutable")
    await bare.execute("UPDATE jobqueue.job_events SET at = at - interval '30 min'")
    await bare.execute("UPDATE jobqueue.event_cursors SET since = since - interval '1 h'")
    if rolled:
        await roll_stats(bare)
    assert (await one(bare, 3600.0)).error_rate == 1.0
    assert (await one(bare, 60.0)).error_rate is None
    assert await prune_minutes(bare, 3600.0) == 0
    assert await prune_minutes(bare, 60.0) == int(rolled)


async def test_a_job_that_is_ready_since_no_time_hides_no_figure(bare: Connection) -> None:
    await add_queue(bare)
    await submit(bare)
    await bare.execute("UPDATE jobqueue.ready SET ready_at = '-infinity'")
    assert (await one(bare)).oldest_runnable_s == math.inf


async def test_the_oldest_runnable_age_is_that_of_any_priority(db: Connection) -> None:
    await add_queue(db)
    assert (await one(db)).oldest_runnable_s is None
    await submit(db, priority=0)
    await db.execute("UPDATE jobqueue.ready SET ready_at = ready_at - interval '100 s'")
    await submit(db, priority=9)
    await submit(db, delay_s=60.0)
    oldest = (await one(db)).oldest_runnable_s
    assert oldest is not None
    assert 100.0 <= oldest < 130.0


async def test_an_empty_queue_has_figures_and_an_unknown_one_has_none(db: Connection) -> None:
    await add_queue(db)
    stats = await one(db)
    assert dict(stats.depth) == dict.fromkeys(JobStatus, 0)
    assert (stats.error_rate, stats.average_processing_s, stats.unhandled) == (None, None, 0)
    assert await get_queue_stats(db, "nowhere", 60.0) == []


async def test_one_roller_at_a_time_counts(db: Connection, another: Connect) -> None:
    await add_queue(db)
    await submit(db)
    other = await another()
    async with other.transaction():
        await other.execute("SELECT FROM jobqueue.event_cursors WHERE name = 'stats' FOR UPDATE")
        assert await roll_stats(db) is None
    assert await roll_stats(db) == 1


async def test_a_transaction_open_over_many_rolls_is_counted_once_it_commits(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    slow = await another()
    async with slow.transaction():
        await submit(slow, 3)
        for _ in range(4):
            await submit(db)
            await roll_stats(db)
            assert await counted_depths(db) == {
                ("q", JobStatus.PENDING): (await real_depths(db))["q", JobStatus.PENDING]
            }
    assert await counted_depths(db) == {("q", JobStatus.PENDING): 7}
    assert await roll_stats(db) == 3
    assert await counted_depths(db) == {("q", JobStatus.PENDING): 7}


@pytest.mark.parametrize("by", ["10 min", "3 days"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-a-transaction"])
async def test_no_event_is_left_out_when_the_clock_of_the_database_goes_back(
    db: Connection, another: Connect, by: str, *, beside: bool
) -> None:
    await add_queue(db)
    await roll_stats(db)
    await set_clock_back(db, by)
    other = await another()
    async with other.transaction():
        if beside:
            await submit(other)
        await submit(db)
        assert await roll_stats(db) == 1
        await set_clock_back(db, by)
    await submit(db)
    assert await counted_depths(db) == await real_depths(db)
    assert await roll_stats(db) == 1 + beside
    assert await counted_depths(db) == await real_depths(db)


async def test_events_older_than_any_roll_of_a_transaction_that_nothing_followed_are_counted(
    bare: Connection, another: Connect
) -> None:
    """Such a transaction is in no snapshot's list: its id is the snapshot's upper end."""
    await add_queue(bare)
    slow = await another()
    await bare.execute(
        "UPDATE jobqueue.event_cursors SET since = since - interval '2 days', "
        "updated_at = updated_at - interval '2 days'"
    )
    async with slow.transaction():
        await slow.execute(
            "INSERT INTO jobqueue.job_events (job, at, queue_id, seq, to_status, reason, attempt) "
            "SELECT 1, now() - interval '30 h', queue_id, 1, 'PENDING', 'SUBMITTED', 0 "
            "FROM jobqueue.queues"
        )
        for _ in range(3):
            await roll_stats(bare)
    assert await counted_depths(bare) == {("q", JobStatus.PENDING): 1}
    assert await roll_stats(bare) == 1


async def test_a_long_tail_is_rolled_in_steps_and_the_figures_stay_exact_between_them(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await roll_stats(db)
    slow = await another()
    async with slow.transaction():
        await submit(slow, 3)
        for _ in range(6):
            await submit(db, 4)
            await settle(db, await claim_one(db))
        steps = []
        while rolled := await roll_stats(db, 10):
            steps.append(rolled)
            assert await counted_depths(db) == await real_depths(db)
        assert sum(steps) == 6 * (4 + 3)
        assert len(steps) > 2
        assert max(steps) < 20
    assert await counted_depths(db) == await real_depths(db)
    assert await roll_stats(db, 10) == 3
    await submit(db, 30)
    assert await roll_stats(db, 10) == 30, "one transaction is never parted"
    assert await counted_depths(db) == await real_depths(db)


@pytest.mark.direct
async def test_after_a_long_pause_events_of_any_age_are_counted_in_every_step(
    bare: Connection,
) -> None:
    await add_queue(bare)
    await roll_stats(bare)
    for _ in range(6):
        await submit(bare, 4)
    await bare.execute("SET session_replication_role = replica")
    await bare.execute("ALTER TABLE jobqueue.job_events DISABLE TRIGGER job_events_immutable")
    await bare.execute("UPDATE jobqueue.job_events SET at = at - interval '30 h'")
    await bare.execute("UPDATE jobqueue.event_cursors SET since = since - interval '2 days'")
    steps = []
    while rolled := await roll_stats(bare, 10):
        steps.append(rolled)
    assert len(steps) > 1
    assert await counted_depths(bare) == {("q", JobStatus.PENDING): 24}
