"""What probes tell: which loops count as stuck, and what makes a program unready."""

import asyncio

from jobqueue.errors import Unavailable
from jobqueue.lease.signals import REACH_CHANGED, ReachChanged
from jobqueue.runtime.clock import ManualClock
from jobqueue.runtime.service import STALE_BOUNDS, Service
from jobqueue.wiring.health import stuck
from jobqueue.wiring.server_health import Readiness
from jobqueue.wiring.worker_health import WorkerHealth
from jobqueue.worker.signals import PHASE_ENTERED, PhaseEntered
from tests.support.waiting import eventually

BOUND_S = 10.0


class Loop(Service):
    """Hangs, or fails, in every turn until it is let go."""

    def __init__(self, clock: ManualClock, *, fails: bool) -> None:
        super().__init__("wedged", interval_s=1.0, bound_s=BOUND_S, clock=clock)
        self.fails = fails
        self.turns = 0
        self.let_go = asyncio.Event()

    async def turn(self) -> None:
        self.turns += 1
        if self.fails:
            raise Unavailable("the database is away")
        await self.let_go.wait()


async def turned(loop: Loop, turns: int) -> None:
    async def enough() -> bool:
        return loop.turns >= turns

    await eventually(enough, what=f"turn {turns}")


async def test_a_loop_that_hangs_is_stuck_after_three_bounds_and_not_before() -> None:
    clock = ManualClock()
    loop = Loop(clock, fails=False)
    await loop.start()
    try:
        await turned(loop, 1)
        clock.advance(STALE_BOUNDS * BOUND_S)
        assert "wedged" not in stuck()
        clock.advance(1.0)
        assert stuck()["wedged"] == "no progress for 31 s"
    finally:
        loop.let_go.set()
        await loop.stop()
    assert "wedged" not in stuck()


async def test_a_loop_that_fails_and_tries_again_is_not_stuck() -> None:
    clock = ManualClock()
    loop = Loop(clock, fails=True)
    await loop.start()
    try:
        await turned(loop, 1)
        clock.advance(10 * BOUND_S)
        await turned(loop, loop.turns + 2)
        assert "wedged" not in stuck()
        assert loop.failures
    finally:
        await loop.stop()


async def test_readiness_tells_the_cause_and_then_that_it_is_gone() -> None:
    missing = [Unavailable("the database cannot be reached")]

    async def check() -> None:
        if missing:
            raise missing[0]

    readiness = Readiness(check)
    await readiness.turn()
    assert readiness.cause == "the database cannot be reached"
    missing.clear()
    await readiness.turn()
    assert readiness.cause == ""


def test_a_worker_is_ready_while_its_beats_arrive() -> None:
    health = WorkerHealth()
    health.listen()
    PHASE_ENTERED.emit(PhaseEntered("ready"))
    REACH_CHANGED.emit(ReachChanged("the database cannot be reached"))
    assert health.look().unready == {"heartbeat": "the database cannot be reached"}
    REACH_CHANGED.emit(ReachChanged(""))
    assert health.look().unready == {}
