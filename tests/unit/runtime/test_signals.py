import asyncio
import os
import signal

import pytest

from jobqueue.runtime.shutdown import ShutdownSignals
from jobqueue.runtime.signals import Signal


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
        async with asyncio.timeout(5):
            await asked.shutdown.wait()
        assert not asked.hurry.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        async with asyncio.timeout(5):
            await asked.hurry.wait()
        assert not asked.drain.is_set()


async def test_sigusr1_asks_for_a_drain_only() -> None:
    with ShutdownSignals() as asked:
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(5):
            await asked.drain.wait()
        assert not asked.shutdown.is_set()
