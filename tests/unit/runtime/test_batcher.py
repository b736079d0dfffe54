"""Who is joined with whom. Times are the batcher's own bounds: no test asserts how long it took."""

import asyncio
from collections.abc import Sequence

import pytest

from jobqueue.runtime import batcher as module
from jobqueue.runtime.batcher import Batcher


class Flushes:
    """Records what was flushed; each flush waits until it may end."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self._begun: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def __call__(self, items: Sequence[int]) -> Sequence[int]:
        self.seen.append(list(items))
        may_end = asyncio.Event()
        self._begun.put_nowait(may_end)
        await may_end.wait()
        return [-item for item in items]

    async def begun(self) -> asyncio.Event:
        """Wait for the next flush; what is returned ends it."""
        async with asyncio.timeout(30):
            return await self._begun.get()


@pytest.fixture
def flushes() -> Flushes:
    return Flushes()


def submitted(batcher: Batcher[int, int], *items: int) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(batcher.submit(item)) for item in items]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have those who are expected waited for without end, as far as a test can tell."""
    monkeypatch.setattr(module, "_PATIENCE_FLUSHES", 1e9)
    monkeypatch.setattr(module, "_MAX_PATIENCE_S", 1e6)


async def test_callers_of_one_turn_share_a_flush_and_those_that_come_meanwhile_the_next(
    flushes: Flushes,
) -> None:
    batcher = Batcher(flushes, 10)
    first = submitted(batcher, 1, 2)
    may_end = await flushes.begun()
    second = submitted(batcher, 3, 4)
    await asyncio.sleep(0)
    may_end.set()
    (await flushes.begun()).set()
    assert await asyncio.gather(*first, *second) == [-1, -2, -3, -4]
    assert flushes.seen == [[1, 2], [3, 4]]


@pytest.mark.usefixtures("patient")
async def test_a_flush_waits_for_as_many_as_the_last_one_answered_and_left_waiting(
    flushes: Flushes,
) -> None:
    batcher = Batcher(flushes, 10)
    first = submitted(batcher, 1, 2)
    may_end = await flushes.begun()
    waiting = submitted(batcher, 3)
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(*first)
    again = submitted(batcher, 4, 5)
    (await flushes.begun()).set()
    await asyncio.gather(*waiting, *again)
    assert flushes.seen == [[1, 2], [3, 4, 5]]


@pytest.mark.usefixtures("patient")
async def test_one_who_comes_alone_waits_for_nobody(flushes: Flushes) -> None:
    batcher = Batcher(flushes, 10)
    for item in (1, 2, 3):
        (call,) = submitted(batcher, item)
        (await flushes.begun()).set()
        assert await call == -item
    assert flushes.seen == [[1], [2], [3]]


async def test_one_who_stays_away_is_not_waited_for_for_long(flushes: Flushes) -> None:
    batcher = Batcher(flushes, 10)
    first = submitted(batcher, 1, 2)
    (await flushes.begun()).set()
    await asyncio.gather(*first)
    (alone,) = submitted(batcher, 3)
    (await flushes.begun()).set()
    assert await alone == -3


@pytest.mark.usefixtures("patient")
async def test_no_more_are_waited_for_than_fit_into_a_flush(flushes: Flushes) -> None:
    batcher = Batcher(flushes, 2)
    calls = submitted(batcher, 1, 2, 3, 4)
    for _ in range(2):
        (await flushes.begun()).set()
    await asyncio.gather(*calls)
    assert flushes.seen == [[1, 2], [3, 4]]


@pytest.mark.usefixtures("patient")
async def test_a_cancelled_caller_counts_as_one_who_came(flushes: Flushes) -> None:
    batcher = Batcher(flushes, 10)
    first = submitted(batcher, 1, 2)
    (await flushes.begun()).set()
    await asyncio.gather(*first)
    (leaving,) = submitted(batcher, 3)
    await asyncio.sleep(0)
    leaving.cancel()
    (staying,) = submitted(batcher, 4)
    (await flushes.begun()).set()
    assert await staying == -4
    assert flushes.seen == [[1, 2], [4]]


async def test_no_flush_takes_the_items_of_callers_who_gave_up(flushes: Flushes) -> None:
    batcher = Batcher(flushes, 2)
    first = submitted(batcher, 1)
    may_end = await flushes.begun()
    leaving = submitted(batcher, 2, 3, 4)
    staying = submitted(batcher, 5, 6)
    await asyncio.sleep(0)
    for call in leaving:
        call.cancel()
    may_end.set()
    (await flushes.begun()).set()
    assert await asyncio.gather(*first, *staying) == [-1, -5, -6]
    assert flushes.seen == [[1], [5, 6]]


async def test_a_flush_of_which_all_callers_gave_up_is_none(flushes: Flushes) -> None:
    batcher = Batcher(flushes, 2)
    first = submitted(batcher, 1)
    may_end = await flushes.begun()
    leaving = submitted(batcher, 2, 3)
    await asyncio.sleep(0)
    may_end.set()
    for call in leaving:
        call.cancel()
    await batcher.drain()
    assert await asyncio.gather(*first) == [-1]
    assert flushes.seen == [[1]]


async def test_an_error_of_a_flush_reaches_each_of_its_callers_and_nobody_else() -> None:
    async def fail_twos(items: Sequence[int]) -> Sequence[int]:
        if 2 in items:
            raise ValueError("two")
        return items

    batcher = Batcher(fail_twos, 2)
    results = await asyncio.gather(*submitted(batcher, 1, 2, 3), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError, int]


async def test_draining_answers_those_who_wait_for_company(flushes: Flushes) -> None:
    batcher = Batcher(flushes, 10)
    first = submitted(batcher, 1, 2)
    (await flushes.begun()).set()
    await asyncio.gather(*first)
    (alone,) = submitted(batcher, 3)
    await asyncio.sleep(0)
    drained = asyncio.create_task(batcher.drain())
    (await flushes.begun()).set()
    await drained
    assert await alone == -3
