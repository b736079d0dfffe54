"""One worker's claims over several queues, and many workers' claims at once."""

import asyncio
import random
from collections import Counter

import pytest

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Released
from jobqueue.lease import frontier
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.frontier import CHEAP_S
from jobqueue.lease.probes import ProbePlan
from jobqueue.lease.takeover import Takeover, expired
from jobqueue.runtime.clock import ManualClock
from jobqueue.runtime.looks import LONGEST_S
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.queues import pause_queue
from jobqueue.store.upkeep import promote_jobs
from tests.store.conftest import Connect
from tests.support.store import add_queue, expire_leases, settle, submit, waits_for_lock
from tests.support.waiting import eventually


def claimer(*queues: str) -> Claimer:
    return Claimer(queues, ProbePlan(frozenset({"t"})), lease_s=60.0)


async def take(claimer: Claimer, db: Connection, n: int, worker: int = 1) -> list[LeasedJob]:
    return await claimer.claim(db, worker, n, running=True)


async def test_the_highest_priority_comes_first_across_queues(db: Connection) -> None:
    for name in ("a", "b"):
        await add_queue(db, name)
        for priority in (1, 5, 9):
            await submit(db, 1, queue=name, priority=priority)
    jobs = await take(claimer("a", "b"), db, 6)
    assert [job.priority for job in jobs] == [9, 9, 5, 5, 1, 1]


async def test_equal_queues_take_turns(db: Connection) -> None:
    for name in ("a", "b"):
        await add_queue(db, name)
        await submit(db, 2, queue=name)
    one = claimer("a", "b")
    came = [job.queue for _ in range(4) for job in await take(one, db, 1)]
    assert came == ["a", "b", "a", "b"]


async def test_a_weighted_queue_starves_no_priority_and_fills_every_slot(db: Connection) -> None:
    await add_queue(db, "w", priority_weights={9: 3, 0: 1})
    await submit(db, 80, queue="w", priority=9)
    await submit(db, 80, queue="w", priority=0)
    plan = ProbePlan(frozenset({"t"}), random.Random(1).random)  # one claim in four is the zeros'
    one = Claimer(["w"], plan, lease_s=60.0)
    came = [job.priority for _ in range(4) for job in await take(one, db, 10)]
    shares = Counter(came)
    assert shares.total() == 40
    assert shares[9] > shares[0] > 0
    rest = [len(await take(one, db, 20)) for _ in range(6)]
    assert rest == [20] * 6, "an empty priority leaves no slot empty"


async def test_a_paused_queue_gives_nothing_until_a_hint_says_otherwise(db: Connection) -> None:
    await add_queue(db)
    await submit(db)
    await pause_queue(db, "q", paused=True)
    one = claimer("q")
    assert await take(one, db, 1) == []
    await pause_queue(db, "q", paused=False)
    assert one.hint({"q"})
    assert not one.hint({"a queue of others"})
    assert len(await take(one, db, 1)) == 1


async def test_a_limited_queue_keeps_its_place_in_the_order(db: Connection) -> None:
    await add_queue(db, "limited", max_running=2)
    await add_queue(db, "open")
    await submit(db, 5, queue="limited", priority=9)
    await submit(db, 5, queue="open", priority=5)
    jobs = await take(claimer("open", "limited"), db, 6)
    assert [job.queue for job in jobs] == ["limited"] * 2 + ["open"] * 4


async def test_a_limited_queue_of_low_priority_waits_for_the_others(db: Connection) -> None:
    await add_queue(db, "limited", max_running=2)
    await add_queue(db, "open")
    await submit(db, 5, queue="limited", priority=0)
    await submit(db, 5, queue="open", priority=5)
    jobs = await take(claimer("open", "limited"), db, 6)
    assert [job.queue for job in jobs[:5]] == ["open"] * 5


async def test_a_limited_queue_fills_the_slots_that_the_others_leave(db: Connection) -> None:
    await add_queue(db, "a")
    await add_queue(db, "l", max_running=2)
    await submit(db, 3, queue="a", priority=9)
    await submit(db, 3, queue="l")
    jobs = await take(claimer("a", "l"), db, 6)
    assert [job.queue for job in jobs] == ["a", "a", "a", "l", "l"]


async def test_a_limited_queue_is_asked_as_soon_as_the_others_leave_slots(db: Connection) -> None:
    await add_queue(db, "a")
    await add_queue(db, "l", max_running=2)
    await submit(db, 5, queue="a", priority=9)
    await submit(db, 3, queue="l")
    one = Claimer(["a", "l"], ProbePlan(frozenset({"t"})), lease_s=60.0, clock=ManualClock())
    assert [job.queue for job in await take(one, db, 3)] == ["a"] * 3
    assert [job.queue for job in await take(one, db, 3)] == ["a"] * 2, "not due: it waits"
    assert [job.queue for job in await take(one, db, 3)] == ["l"] * 2


async def test_room_made_by_an_own_job_is_used_at_once(db: Connection) -> None:
    await add_queue(db, "limited", max_running=1)
    await submit(db, 2, queue="limited")
    one = claimer("limited")
    (first,) = await take(one, db, 5)
    assert await take(one, db, 5) == []
    await settle(db, first)
    one.job_ended("limited")
    assert len(await take(one, db, 5)) == 1


async def test_room_made_while_a_claim_is_under_way_is_used_by_the_next(
    db: Connection, another: Connect
) -> None:
    await add_queue(db, "limited", max_running=1)
    await submit(db, 2, queue="limited")
    one, blocker = claimer("limited"), await another()
    (first,) = await take(one, db, 5)
    async with blocker.transaction():
        await blocker.execute("SELECT FROM jobqueue.queues FOR UPDATE")
        claiming = asyncio.create_task(take(one, db, 5))
        await eventually(lambda: waits_for_lock(blocker, db), what="the claim waits")
        # Its answer is heard before that of the claim, which still sees the job run.
        one.job_ended("limited")
    assert await claiming == []
    await settle(db, first)
    assert len(await take(one, db, 5)) == 1


async def test_the_place_of_a_dead_holder_is_free_as_soon_as_its_lease_was_taken_back(
    db: Connection,
) -> None:
    await add_queue(db, "limited", max_running=1)
    await submit(db, 2, queue="limited")
    dead, other = claimer("limited"), claimer("limited")
    (held,) = await take(dead, db, 1)
    assert await take(other, db, 1, worker=2) == []
    await expire_leases(db)
    page = await Takeover(expired(), page_size=10, crash_limit=3).step(db)
    assert page.taken == 1
    assert other.hint(page.ready), "as the reaper sends it"
    (next_,) = await take(other, db, 1, worker=2)
    assert next_.job_id != held.job_id, "that one waits for its retry"


async def test_a_limit_taken_away_is_noticed_without_a_restart(db: Connection) -> None:
    await add_queue(db, "limited", max_running=1)
    await submit(db, 4, queue="limited")
    one = claimer("limited")
    assert len(await take(one, db, 5)) == 1
    await db.execute("UPDATE jobqueue.queues SET max_running = NULL")
    assert await take(one, db, 5) == [], "facts are old, and the row was not locked"
    one._serving_until = 0.0
    assert len(await take(one, db, 5)) == 3


async def test_a_limit_set_meanwhile_holds_while_another_queue_is_limited(db: Connection) -> None:
    await add_queue(db, "limited", max_running=1)
    await add_queue(db, "open")
    one = claimer("limited", "open")
    assert await take(one, db, 5) == []
    await db.execute("UPDATE jobqueue.queues SET max_running = 1 WHERE name = 'open'")
    await submit(db, 3, queue="open")
    await submit(db, 3, queue="limited")
    one.job_ended("limited")
    jobs = await take(one, db, 5)
    assert [job.queue for job in jobs] == ["limited"], "facts of the other are old"
    one._serving_until = 0.0
    assert [job.queue for job in await take(one, db, 5)] == ["open"]


@pytest.mark.parametrize("limit", [1, 3])
async def test_eight_workers_never_hold_more_than_max_running(
    db: Connection, another: Connect, pool: Pool, limit: int
) -> None:
    await add_queue(db, "limited", max_running=limit)
    await add_queue(db, "open")
    await submit(db, 40, queue="limited")
    await submit(db, 40, queue="open", priority=1)
    seen: list[int] = []
    claims: Counter[int] = Counter()
    working = asyncio.Event()

    async def work(number: int) -> None:
        connection, one = await another(), claimer("limited", "open")
        while claims.total() < 80:
            one.hint({"limited"})  # ask every time: this test wants the race
            jobs = await take(one, connection, 3, number)
            claims.update(job.lease.job for job in jobs)
            for job in jobs:
                await settle(connection, job, worker=number)

    async def watch() -> None:
        while not working.is_set():
            running = await pool.fetchval(
                "SELECT count(*) FROM jobqueue.leases l JOIN jobqueue.queues q USING (queue_id) "
                "WHERE q.name = 'limited'"
            )
            seen.append(running)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(work(number) for number in range(1, 9)))
    working.set()
    await watching
    assert max(seen) <= limit
    assert max(seen) > 0, "the race was seen"
    assert set(claims.values()) == {1}, "no job was claimed twice"


async def test_eight_workers_claim_full_batches_and_share_no_job(
    db: Connection, another: Connect
) -> None:
    names = ("a", "b", "w")
    for name in names:
        await add_queue(db, name, priority_weights={9: 5} if name == "w" else {})
        for priority in (0, 5, 9):
            await submit(db, 100, queue=name, priority=priority)

    async def work(number: int) -> list[list[LeasedJob]]:
        connection, one = await another(), claimer(*names)
        return [await take(one, connection, 20, number) for _ in range(5)]

    batches = [b for each in await asyncio.gather(*map(work, range(1, 9))) for b in each]
    assert [len(batch) for batch in batches] == [20] * 40
    assert len({job.lease.job for batch in batches for job in batch}) == 800


async def test_a_late_outcome_gives_no_second_job_the_room_of_the_first(db: Connection) -> None:
    await add_queue(db, "limited", max_running=1)
    await submit(db, 3, queue="limited")
    one = claimer("limited")
    (late,) = await take(one, db, 5)
    await expire_leases(db)
    assert (await Takeover(expired(), page_size=10, crash_limit=3).step(db)).taken == 1
    one.job_ended("limited")
    (young,) = await take(one, db, 5)
    assert await settle(db, late) == "lost"
    one.job_ended("limited")
    assert await take(one, db, 5) == [], "its room was given away when its lease was taken"
    assert await settle(db, young) == "settled"
    one.job_ended("limited")
    assert len(await take(one, db, 5)) == 1


async def test_missed_hints_end_the_waits_of_limited_queues(db: Connection) -> None:
    await add_queue(db, max_running=5)
    one = Claimer(["q"], ProbePlan(frozenset({"t"})), lease_s=60.0, clock=ManualClock())
    assert await take(one, db, 1) == []
    await submit(db)
    assert await take(one, db, 1) == [], "it was empty a moment ago"
    assert one.hint(())
    assert len(await take(one, db, 1)) == 1


class SlowClock(ManualClock):
    """A clock by which every claim takes so long that bounds pay."""

    def monotonic(self) -> float:
        self.advance(10 * CHEAP_S)
        return super().monotonic()


async def bounded_claimer(db: Connection) -> tuple[Claimer, SlowClock]:
    """Return one that has looked at everything, in vain and dearly, as often as it takes."""
    clock = SlowClock()
    one = Claimer(["q"], ProbePlan(frozenset({"t"})), lease_s=60.0, clock=clock)
    for _ in range(2):
        assert await take(one, db, 1) == []
    return one, clock


async def test_a_job_before_the_frontier_is_found_by_the_next_look_at_everything(
    db: Connection,
) -> None:
    await add_queue(db)
    one, clock = await bounded_claimer(db)
    await submit(db, 2)
    early, late = await take(one, db, 2)
    assert await settle(db, early, Released()) == "settled"
    await db.execute("UPDATE jobqueue.ready SET ready_at = ready_at - interval '1 hour'")
    assert await take(one, db, 1) == [], "it lies before the frontier"
    clock.advance(LONGEST_S)
    (found,) = await take(one, db, 1)
    assert found.lease.job == early.lease.job
    assert await settle(db, late) == "settled"


async def test_a_job_that_is_promoted_an_hour_late_waits_ten_seconds_at_most(
    db: Connection,
) -> None:
    await add_queue(db)
    await submit(db, delay_s=3600.0)
    one, clock = await bounded_claimer(db)
    await db.execute("UPDATE jobqueue.scheduled SET due_at = now() - interval '1 hour'")
    assert (await promote_jobs(db, 10)).count == 1
    assert await take(one, db, 1) == [], "it lies before the frontier"
    clock.advance(LONGEST_S)
    assert len(await take(one, db, 1)) == 1


async def test_what_comes_meanwhile_is_never_before_the_frontier(
    db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for slack in ("SLACK_S", "NARROW_S"):  # its clock stands still when the machine does
        monkeypatch.setattr(frontier, slack, 30.0)
    await add_queue(db)
    one = Claimer(["q"], ProbePlan(frozenset({"t"})), lease_s=60.0, clock=SlowClock())
    for _ in range(5):
        assert await take(one, db, 1) == []
        await submit(db)
        assert len(await take(one, db, 2)) == 1
