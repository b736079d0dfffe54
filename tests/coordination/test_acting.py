"""Who acts: one while Redis works, everybody when it does not, nobody on an old belief."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from jobqueue.coordination.acting import ActingLock
from jobqueue.coordination.redis_lock import RedisLock, open_redis
from jobqueue.coordination.signals import LOCK_CHANGED, LockChanged, LockState
from jobqueue.reaper.duty import Duty
from jobqueue.runtime.clock import ManualClock
from jobqueue.runtime.service import Service
from tests.support.redis import RedisServer
from tests.support.waiting import eventually

PATIENT_S, IMPATIENT_S = 60.0, 1.0
TTL_S = 60.0


@dataclass
class Replica:
    """One contender with a clock of its own, and what it signalled."""

    acting: ActingLock
    lock: RedisLock
    clock: ManualClock
    changes: list[LockChanged] = field(default_factory=list)

    @property
    def states(self) -> list[str]:
        return [change.state for change in self.changes]

    async def turn(self) -> float | None:
        return await self.acting.turn()


Make = Callable[..., Replica]


@pytest_asyncio.fixture
async def make(redis_server: RedisServer) -> AsyncIterator[Make]:
    """Make replicas on the Redis of the test."""
    closing, number = [], 0

    def replica(ttl_s: float = TTL_S, timeout_s: float = PATIENT_S) -> Replica:
        nonlocal number
        number += 1
        settings = redis_server.settings(connect_timeout_ms=int(timeout_s * 1000))
        client, clock = open_redis(settings), ManualClock()
        lock = RedisLock(client, "lock", ttl_s=ttl_s)
        name = f"replica-{number}"
        made = Replica(ActingLock(name, lock, timeout_s=timeout_s, clock=clock), lock, clock)
        stop = LOCK_CHANGED.subscribe(
            lambda news: made.changes.append(news) if news.lock == name else None
        )
        closing.append((client, stop))
        return made

    yield replica
    for client, stop in closing:
        stop()
        await client.aclose()


async def test_one_of_two_acts(make: Make) -> None:
    first, second = make(), make()
    assert not first.acting.may_act(), "nobody was asked yet"
    assert await first.turn() is None
    assert await second.turn() == pytest.approx(TTL_S / 3)
    assert (first.acting.may_act(), second.acting.may_act()) == (True, False)
    assert (first.states, second.states) == (["held"], ["held-by-another"])
    assert [change.held for change in first.changes + second.changes] == [True, False]


async def test_a_state_that_stays_is_told_once(make: Make, redis_server: RedisServer) -> None:
    replica = make()
    await replica.turn()
    await replica.turn()
    redis_server.read_only()
    for _ in range(3):
        await replica.turn()
    redis_server.writable()
    await replica.turn()
    assert replica.states == ["held", "unavailable", "held"]
    assert "read only" in replica.changes[1].cause
    assert replica.acting.cause == ""


async def test_a_holder_that_slept_too_long_does_not_trust_its_lock(
    make: Make, redis_server: RedisServer
) -> None:
    sleeper, other = make(), make()
    await sleeper.turn()
    redis_server.command("DEL", "lock")  # what its end does meanwhile
    await other.turn()
    sleeper.clock.advance(TTL_S)
    assert sleeper.acting.state is LockState.HELD
    assert not sleeper.acting.may_act()
    await sleeper.turn()
    assert sleeper.states == ["held", "held-by-another"]
    assert other.acting.may_act()


async def test_trust_counts_from_the_question_not_from_its_answer(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = make()
    acquire = replica.lock.acquire

    async def slowly() -> bool:
        taken = await acquire()
        replica.clock.advance(TTL_S / 2)
        return taken

    monkeypatch.setattr(replica.lock, "acquire", slowly)
    await replica.turn()
    assert replica.acting.may_act()
    replica.clock.advance(TTL_S / 2)
    assert not replica.acting.may_act(), "the lock is over"


async def test_a_holder_that_slept_and_is_still_the_owner_goes_on(make: Make) -> None:
    sleeper = make()
    await sleeper.turn()
    sleeper.clock.advance(TTL_S)
    await sleeper.turn()
    assert sleeper.acting.may_act()


async def test_a_standby_looks_again_when_the_lock_ends(make: Make) -> None:
    holder, standby = make(ttl_s=0.9), make(ttl_s=0.9)
    await holder.turn()
    waits = []

    async def takes_over() -> bool:
        waits.append(await standby.turn())
        return standby.acting.may_act()

    await eventually(takes_over, what="the take-over")
    assert all(0 < wait <= 0.3 for wait in waits[:-1] if wait is not None)
    assert None not in waits[:-1]


async def test_a_flushed_lock_is_taken_again(make: Make, redis_server: RedisServer) -> None:
    replica = make()
    await replica.turn()
    redis_server.command("FLUSHALL")
    await replica.turn()
    assert replica.states == ["held"]
    assert redis_server.command("GET", "lock") == replica.lock.owner


async def test_an_answer_that_got_lost_does_not_lock_its_asker_out(
    make: Make, redis_server: RedisServer
) -> None:
    replica = make(timeout_s=IMPATIENT_S)
    with redis_server.hanging():
        await replica.turn()
        assert replica.acting.may_act()

    async def holds() -> bool:
        await replica.turn()  # the questions of before may have been heard after all
        return replica.acting.state is LockState.HELD

    await eventually(holds, what="the lock")
    assert replica.states == ["unavailable", "held"]


async def test_everybody_acts_while_redis_is_away(make: Make, redis_server: RedisServer) -> None:
    replicas = [make(), make()]
    redis_server.kill()
    try:
        for replica in replicas:
            await replica.turn()
        assert all(replica.acting.may_act() for replica in replicas)
    finally:
        redis_server.start()
    for replica in replicas:
        await replica.turn()
    assert [replica.acting.may_act() for replica in replicas] == [True, False]


async def test_a_lock_without_an_end_keeps_nobody_from_acting(
    make: Make, redis_server: RedisServer
) -> None:
    redis_server.command("SET", "lock", "foreign")
    replica = make()
    await replica.turn()
    assert replica.acting.may_act()
    assert "no expiry" in replica.acting.cause


async def test_a_replica_that_stops_gives_its_lock_back(
    make: Make, redis_server: RedisServer
) -> None:
    leaving, other = make(), make()
    await leaving.turn()
    await leaving.acting.teardown()
    assert redis_server.command("EXISTS", "lock") == 0
    assert not leaving.acting.may_act()
    await other.turn()
    await leaving.acting.teardown()
    assert redis_server.command("GET", "lock") == other.lock.owner


async def test_a_replica_that_cannot_work_leaves_the_lock_to_others(make: Make) -> None:
    broken, other = make(), make()
    duty = Service("duty", interval_s=1.0)
    broken.acting.guard([duty])
    await broken.turn()
    duty.failures = 5
    await broken.turn()
    await other.turn()
    assert other.acting.may_act()
    assert broken.acting.may_act(), "it must go on trying, or nobody would if all are broken"
    duty.failures = 0
    await broken.turn()
    assert broken.states == ["held", "given-up", "held-by-another"]


class Counting(Duty):
    """Counts its acts; needs no database for that."""

    acts = 0

    async def act(self) -> float | None:
        self.acts += 1
        return 0.0


async def test_a_duty_skips_the_turns_in_which_it_must_not_act() -> None:
    allowed = False
    duty = Counting("counting", None, interval_s=1.0)  # type: ignore[arg-type]
    duty.only_while(lambda: allowed)
    assert await duty.turn() is None
    assert duty.acts == 0
    allowed = True
    assert await duty.turn() == 0.0
    assert duty.acts == 1


async def test_a_duty_nobody_restrains_acts() -> None:
    duty = Counting("counting", None, interval_s=1.0)  # type: ignore[arg-type]
    assert await duty.turn() == 0.0
