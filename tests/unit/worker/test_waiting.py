"""Waits of a process that may be stopped meanwhile."""

import asyncio
import time

from jobqueue.worker.waiting import any_set_within_awake

LIMIT_S = 0.8


async def heard_after_a_stop(event: asyncio.Event) -> None:
    """Stand still for longer than the limit; what happened meanwhile is heard some turns later."""
    time.sleep(2 * LIMIT_S)  # noqa: ASYNC251 - the loop is to stand still
    for _ in range(5):
        await asyncio.sleep(0)
    event.set()


async def test_the_time_of_a_stop_does_not_use_up_a_limit() -> None:
    event = asyncio.Event()
    stop = asyncio.create_task(heard_after_a_stop(event))
    await any_set_within_awake(LIMIT_S, event)
    assert event.is_set()
    await stop


async def test_what_never_happens_is_waited_for_no_longer_than_the_limit() -> None:
    begun = time.monotonic()
    await any_set_within_awake(0.1, asyncio.Event())
    assert time.monotonic() - begun >= 0.1


async def test_what_has_happened_is_not_waited_for() -> None:
    event, never = asyncio.Event(), asyncio.Event()
    event.set()
    async with asyncio.timeout(60):
        await any_set_within_awake(3600, never, event)
