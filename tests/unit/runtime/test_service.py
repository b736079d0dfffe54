import asyncio
from collections.abc import Awaitable, Callable

import pytest

from jobqueue.errors import DeadlineExceeded, JobQueueError, Unavailable
from jobqueue.runtime.clock import ManualClock
from jobqueue.runtime.looks import SHARE
from jobqueue.runtime.service import (
    TURN_ENDED,
    USUAL_LOOK_S,
    Group,
    Service,
    TurnEnded,
    Unfinished,
)
from tests.support.waiting import HANG_S

FOREVER_S = 3600.0


class Loop(Service):
    """Runs what it is given, and lets a test wait for the n-th turn."""

    def __init__(
        self, work: Callable[[int], Awaitable[float | None]], interval_s: float = FOREVER_S
    ) -> None:
        super().__init__("loop", interval_s=interval_s, clock=ManualClock())
        self.work = work
        self.turns = 0
        self.calls: list[str] = []
        self.news = asyncio.Condition()

    async def setup(self) -> None:
        self.calls.append("setup")

    async def teardown(self) -> None:
        self.calls.append("teardown")

    async def turn(self) -> float | None:
        self.turns += 1
        async with self.news:
            self.news.notify_all()
        return await self.work(self.turns)

    async def reached(self, turns: int) -> None:
        async with asyncio.timeout(HANG_S), self.news:
            await self.news.wait_for(lambda: self.turns >= turns)


async def nothing(turn: int) -> float | None:
    return None


async def test_a_turn_that_returns_zero_is_followed_at_once() -> None:
    async def work(turn: int) -> float | None:
        return 0 if turn < 3 else None

    loop = Loop(work)
    await loop.start()
    await loop.reached(3)
    await loop.stop()
    assert loop.turns == 3


async def test_a_wake_begins_the_next_turn_before_its_time() -> None:
    loop = Loop(nothing)
    await loop.start()
    await loop.reached(1)
    loop.wake()
    await loop.reached(2)
    await loop.stop()


async def test_a_wake_during_a_turn_is_not_lost() -> None:
    gate = asyncio.Event()

    async def work(turn: int) -> float | None:
        await gate.wait()
        return None

    loop = Loop(work)
    await loop.start()
    await loop.reached(1)
    loop.wake()
    gate.set()
    await loop.reached(2)
    await loop.stop()


async def test_a_failing_turn_is_tried_again_and_counted() -> None:
    ended: list[TurnEnded] = []
    unsubscribe = TURN_ENDED.subscribe(ended.append)

    async def work(turn: int) -> float | None:
        if turn == 1:
            raise ValueError("bad row")
        return None

    loop = Loop(work)
    await loop.start()
    await loop.reached(2)
    await loop.stop()
    unsubscribe()
    assert (loop.failures, loop.failures_total) == (0, 1)
    assert isinstance(ended[0].error, ValueError)
    assert ended[1].error is None


@pytest.mark.parametrize("outage", [Unavailable, DeadlineExceeded])
async def test_an_outage_is_one_line_of_all_loops_without_a_stack_trace(
    caplog: pytest.LogCaptureFixture, outage: type[JobQueueError]
) -> None:
    async def work(turn: int) -> float | None:
        if turn < 3:
            raise outage("an outage that nobody else tells of")
        return None

    loops = [Loop(work), Loop(work)]
    for loop in loops:
        await loop.start()
    for loop in loops:
        await loop.reached(3)
        await loop.stop()
    lines = [r for r in caplog.records if r.name == "jobqueue.runtime.service"]
    assert [line.exc_info for line in lines] == [None]


async def test_a_turn_that_told_what_it_left_undone_failed_and_rests_as_usual(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(turn: int) -> float | None:
        for step in ("one", "other", "one"):
            loop.tell(ValueError("bad row"), step=step)
        raise Unfinished("both")

    loop = Loop(work)
    assert await loop._guarded_turn() > FOREVER_S / 2
    assert (loop.failures, loop.failures_total) == (1, 1)
    lines = [r.getMessage() for r in caplog.records if r.name == "jobqueue.runtime.service"]
    assert lines == ["a turn failed, trying again"] * 2, "each step once, and no more of the turn"


async def test_a_cancellation_that_leaks_from_the_work_does_not_end_the_loop() -> None:
    async def work(turn: int) -> float | None:
        if turn == 1:
            raise asyncio.CancelledError
        return None

    loop = Loop(work)
    await loop.start()
    await loop.reached(2)
    await loop.stop()
    assert loop.failures_total == 1


async def test_a_hint_does_not_hurry_a_loop_that_backs_off() -> None:
    async def work(turn: int) -> float | None:
        raise ValueError

    loop = Loop(work)
    loop.failures = 5
    pause = asyncio.create_task(loop._pause(FOREVER_S))
    loop.wake()
    done, _ = await asyncio.wait({pause}, timeout=0.05)
    assert not done
    loop._stopping.set()
    await pause


async def test_stop_lets_the_current_turn_finish_then_tears_down() -> None:
    gate = asyncio.Event()
    finished: list[int] = []

    async def work(turn: int) -> float | None:
        await gate.wait()
        finished.append(turn)
        return 0

    loop = Loop(work)
    await loop.start()
    await loop.reached(1)
    stopping = asyncio.create_task(loop.stop())
    await asyncio.sleep(0)
    gate.set()
    await stopping
    assert finished == [1]
    assert loop.calls == ["setup", "teardown"]
    assert not loop.running


async def test_stop_cancels_a_turn_that_outlasts_the_grace() -> None:
    async def work(turn: int) -> float | None:
        await asyncio.Event().wait()
        return None

    loop = Loop(work)
    await loop.start()
    await loop.reached(1)
    await loop.stop(grace_s=0)
    assert loop.calls == ["setup", "teardown"]


class Stubborn(Loop):
    """Its turn and its teardown wait for a peer that never answers, even when cancelled once."""

    def __init__(self) -> None:
        super().__init__(self.hang)

    async def hang(self, turn: int) -> float | None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()
        return None

    async def teardown(self) -> None:
        await self.hang(0)


async def test_stop_waits_neither_for_a_clean_up_that_hangs_nor_for_a_teardown() -> None:
    loop = Stubborn()
    await loop.start()
    await loop.reached(1)
    async with asyncio.timeout(30):
        await loop.stop(grace_s=0)
    assert not loop.running


async def test_loops_that_hang_end_together_when_the_grace_is_used_up() -> None:
    loops = [Stubborn() for _ in range(50)]
    group = Group(loops)
    await group.start_all()
    for loop in loops:
        await loop.reached(1)
    async with asyncio.timeout(30):  # one after the other they would take more than a minute
        await group.stop_all(grace_s=0)
    assert not any(loop.running for loop in loops)


async def test_a_stopped_loop_can_start_again_but_not_twice() -> None:
    loop = Loop(nothing)
    await loop.start()
    with pytest.raises(RuntimeError, match="runs already"):
        await loop.start()
    await loop.stop()
    await loop.start()
    await loop.reached(1)
    await loop.stop()


async def test_the_beginning_of_a_retry_is_progress() -> None:
    clock = ManualClock()

    async def work(turn: int) -> float | None:
        clock.advance(100)
        raise ValueError

    loop = Loop(work)
    loop._clock = clock
    loop.last_progress = 0.0
    await loop._guarded_turn()
    assert loop.last_progress == 0.0
    await loop._guarded_turn()
    assert loop.last_progress == 100.0


async def test_backoff_grows_from_a_tenth_of_a_second_and_never_beyond_two_and_a_half() -> None:
    loop = Loop(nothing)
    waits = [loop._failed(0.0, ValueError()) for _ in range(2000)]
    assert 0.05 <= waits[0] <= 0.1
    assert all(1.25 <= wait <= 2.5 for wait in waits[10:])


def test_a_loop_whose_looks_are_dear_rests_longer_within_its_bound() -> None:
    loop = Loop(nothing, interval_s=1.0)
    dear_s = USUAL_LOOK_S + 0.1
    assert loop.sparing(USUAL_LOOK_S) == 1.0
    assert loop.sparing(dear_s) == 1.0, "once may be chance"
    assert loop.sparing(dear_s) == pytest.approx(0.1 * SHARE)
    loop.bound_s = 5.0
    assert loop.sparing(dear_s) == 5.0
    assert loop.sparing(0.0) == 1.0


async def test_a_failed_turn_ends_a_row_of_dear_looks() -> None:
    loop = Loop(nothing, interval_s=1.0)
    loop.sparing(60.0)
    loop._failed(0.0, ValueError())
    assert loop.sparing(60.0) == 1.0


async def test_a_wait_is_never_longer_than_the_bound() -> None:
    async def work(turn: int) -> float | None:
        return 10 * FOREVER_S

    loop = Loop(work, interval_s=1.0)
    assert await loop._guarded_turn() <= 1.1 * loop.bound_s


async def test_a_group_stops_in_reverse_order() -> None:
    order: list[str] = []

    class Named(Loop):
        async def teardown(self) -> None:
            order.append(self.name)

    first, second = Named(nothing), Named(nothing)
    first.name, second.name = "first", "second"
    group = Group([first, second])
    await group.start_all()
    await group.stop_all()
    assert order == ["second", "first"]


async def test_a_group_that_cannot_start_leaves_nothing_running() -> None:
    class Broken(Loop):
        async def setup(self) -> None:
            raise Unavailable("no")

    good = Loop(nothing)
    with pytest.raises(Unavailable):
        await Group([good, Broken(nothing)]).start_all()
    assert not good.running
    assert good.calls == ["setup", "teardown"]


async def test_one_broken_teardown_does_not_keep_the_others_running() -> None:
    class Broken(Loop):
        async def teardown(self) -> None:
            raise ValueError

    good, broken = Loop(nothing), Broken(nothing)
    group = Group([good, broken])
    await group.start_all()
    await group.stop_all()
    assert not good.running
