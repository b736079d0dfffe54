"""What a tail asks the database for: no more than what it shows."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from jobqueue.domain.job import JobEvent
from jobqueue.errors import DeadlineExceeded, FailedPrecondition
from jobqueue.events import tail as tail_module
from jobqueue.events.places import Place, read_place, write_place
from jobqueue.events.tail import Tail, Wanted
from jobqueue.store.events import BEGINNING, Step, TailStart, start_tail
from jobqueue.store.pool import Connection, Pool
from tests.store.conftest import Connect
from tests.support.store import add_queue, submit
from tests.support.waiting import HANG_S

LOST_IDS = "SELECT setval('jobqueue.event_id_seq', nextval('jobqueue.event_id_seq') + $1)"
"""As if the partitions of so many events had been dropped."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how often a tail asked for what."""
    counted: Counter[str] = Counter()

    def count(name: str) -> None:
        real: Callable[..., Awaitable[object]] = getattr(tail_module, name)

        async def counting(*arguments: Any, **named: Any) -> object:
            counted[name] += 1
            return await real(*arguments, **named)

        monkeypatch.setattr(tail_module, name, counting)

    for name in ("list_events_after", "list_new_events"):
        count(name)
    return counted


async def test_ids_of_which_nothing_is_left_are_not_walked(
    db: Connection, pool: Pool, asked: Counter[str]
) -> None:
    await add_queue(db)
    await db.execute(LOST_IDS, 5_000_000)
    await submit(db, 1_500)
    seen = [each async for each in Tail(pool).read(Wanted(after=0), follow=False)]
    assert len(event_ids(seen)) == 1_500
    assert asked["list_events_after"] < 20


async def test_a_follower_far_behind_reads_each_page_by_itself_and_misses_nothing(
    db: Connection, pool: Pool, another: Connect, asked: Counter[str]
) -> None:
    """Also what commits late, with ids from long before all others."""
    await add_queue(db)
    late = await another()
    async with late.transaction():
        await submit(late, 1_200)
        await submit(db, 1)
        await db.execute(LOST_IDS, 100_000)
        tail = Tail(pool).read(Wanted(after=0), follow=True)
        seen = await read(tail, 1)
        await submit(db, 5_000)
    seen += await read(tail, 6_200)
    await tail.aclose()
    assert sorted(event_ids(seen)) == await stored(db)
    assert asked["list_new_events"] <= 3


async def test_from_each_place_the_rest_is_told_also_what_commits_late(
    db: Connection, pool: Pool, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places are told before, in and after what was there and in and after what came."""
    monkeypatch.setattr(tail_module, "_PAGE", 2)
    await add_queue(db)
    late = await another()
    async with late.transaction():
        await submit(late, 3)
        await submit(db, 5)
        tail = Tail(pool).read(Wanted(after=0), follow=True)
        seen = await read(tail, 5)
        await submit(db, 5)
    seen += await read(tail, 8)
    await tail.aclose()
    everything = await stored(db)
    assert len(seen) - 13 > 5, "places"
    for index, each in enumerate(seen):
        if not isinstance(each, Place):
            continue
        had = event_ids(seen[:index])
        again = Tail(pool).read(Wanted(place=read_place(write_place(each))), follow=True)
        left = await read(again, 13 - len(had))
        await again.aclose()
        assert sorted(had + event_ids(left)) == everything


async def test_a_made_up_place_far_ahead_costs_no_more_than_what_is_there(
    db: Connection, pool: Pool, asked: Counter[str]
) -> None:
    await add_queue(db)
    await submit(db, 3)
    present = await start_tail(db)
    step = Step(BEGINNING, replace(present, last_eid=2**63 - 1))
    async with asyncio.timeout(HANG_S):
        seen = [e async for e in Tail(pool).read(Wanted(place=Place(step, 0)), follow=False)]
    assert event_ids(seen) == await stored(db)
    assert asked["list_events_after"] == 1


async def test_a_follower_that_goes_on_from_a_place_waits_until_there_is_a_primary(
    db: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_queue(db)
    present = await start_tail(db)
    place = Place(Step(BEGINNING, present), 0)
    answers = [replace(present, standby=True), None]

    async def failing_over(pool: Pool) -> TailStart:
        answer = answers.pop() if answers else await start_tail(pool)
        if answer is None:
            raise DeadlineExceeded("failing over")
        return answer

    await submit(db, 1)
    monkeypatch.setattr(tail_module, "start_tail", failing_over)
    monkeypatch.setattr(tail_module, "_OUTAGE_S", 0.0)
    tail = Tail(pool).read(Wanted(place=place), follow=True)
    async with asyncio.timeout(HANG_S):
        seen = await read(tail, 1)
    await tail.aclose()
    assert event_ids(seen) == await stored(db)
    assert answers == []
    answers.append(replace(present, standby=True))
    with pytest.raises(FailedPrecondition):
        await anext(Tail(pool).read(Wanted(), follow=True))


async def read(tail: AsyncIterator[JobEvent | Place], events: int) -> list[JobEvent | Place]:
    """Return what comes until there are so many events."""
    told: list[JobEvent | Place] = []
    while events:
        told.append(await anext(tail))
        events -= isinstance(told[-1], JobEvent)
    return told


def event_ids(told: Sequence[JobEvent | Place]) -> list[int]:
    return [each.event_id for each in told if isinstance(each, JobEvent)]


async def stored(db: Connection) -> list[int]:
    return [row["eid"] for row in await db.fetch("SELECT eid FROM jobqueue.job_events ORDER BY 1")]
