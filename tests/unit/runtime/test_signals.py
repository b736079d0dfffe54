import asyncio
import os
import signal

import pytest

from jobqueue.runtime.shutdown import ShutdownSignals, finishes_before
from jobqueue.runtime.signals import Signal
from tests.support.waiting import HANG_S


def test_subscribers_hear_until_they_leave() -> None:
    heard: list[int] = []
    news: Signal[int] = Signal("news")
    leave = news.subscribe(heard.append)
    news.emit(1)
    leave()
    news.emit(2)
    assert heard == [1]


def test_a_failing_subscriber_hides_nothing_from_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[int] = []
    news: Signal[int] = Signal("broken-news")

    def fail(value: int) -> None:
        raise ValueError

    news.subscribe(fail)
    news.subscribe(heard.append)
    news.emit(1)
    news.emit(2)
    assert heard == [1, 2]
    assert [r.getMessage() for r in caplog.records] == ["a subscriber failed"]


async def test_the_first_signal_asks_for_an_end_and_the_second_hurries() -> None:
    with ShutdownSignals() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(HANG_S):
            await asked.shutdown.wait()
        assert not asked.hurry.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        async with asyncio.timeout(HANG_S):
            await asked.hurry.wait()
        assert not asked.drain.is_set()


async def test_the_first_signal_after_an_operators_command_does_not_hurry() -> None:
    with ShutdownSignals() as asked:
        asked.shutdown.set()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(HANG_S):
            await asked.drain.wait()  # and so the signal before it
        assert not asked.hurry.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(HANG_S):
            await asked.hurry.wait()


async def test_sigusr1_asks_for_a_drain_only() -> None:
    with ShutdownSignals() as asked:
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(HANG_S):
            await asked.drain.wait()
        assert not asked.shutdown.is_set()


async def test_work_that_finishes_first_is_true_and_raises_what_it_raises() -> None:
    never = asyncio.Event()

    async def work(error: Exception | None) -> None:
        await asyncio.sleep(0)
        if error:
            raise error

    assert await finishes_before(never, work(None))
    with pytest.raises(ValueError, match="broken"):
        await finishes_before(never, work(ValueError("broken")))


@pytest.mark.parametrize("timeout_s", [None, 0.0])
async def test_work_that_is_overtaken_is_cancelled_and_awaited(timeout_s: float | None) -> None:
    event, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    overtaken = asyncio.create_task(finishes_before(event, work(), timeout_s))
    async with asyncio.timeout(HANG_S):
        await begun.wait()
    if timeout_s is None:
        event.set()
    assert not await overtaken
    assert ended.is_set()
