"""An event that Kafka refuses is parked, alone: brokers refuse whole batches (R-6.3)."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, Message, Producer

from jobqueue.domain.outcome import Failed
from jobqueue.events import publisher
from jobqueue.events.encode import Record
from jobqueue.events.pages import PAGE_EVENTS
from jobqueue.events.relay import Relay
from jobqueue.events.signals import EVENTS_PARKED, Parked
from jobqueue.store.events import (
    extend_cursor,
    list_parked,
    move_cursor,
    open_window,
    park_events,
    read_page,
    resend_parked,
    take_cursor,
)
from jobqueue.store.leases import settle_leases
from jobqueue.store.pool import Pool, create_pool
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.query_counter import QueryCounter
from tests.support.relays import all_arrive, recorded_events, relay, relaying, run_jobs
from tests.support.store import WORKER, add_queue, claim, settle, settlement, submit
from tests.support.waiting import HANG_S, eventually

LIMIT_BYTES = 4_000
REFUSED = 1_000
PARKED = "SELECT count(*) FROM jobqueue.parked_events"


def noise(size: int) -> str:
    """Return text that no compression makes small."""
    return random.Random(size).randbytes(size // 2).hex()


class Picky(Producer):
    """Reports a whole flush as refused when it holds a record of a certain job."""

    unwanted: ClassVar[UUID]
    refused: ClassVar[list[int]]

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._held: list[tuple[Any, ...]] = []

    def produce(self, *given: Any) -> None:
        self._held.append(given)

    def flush(self, timeout: float = -1) -> int:
        held, self._held = self._held, []
        refused = any(str(self.unwanted).encode() in given for given in held)
        for given in held:
            _, value, _, _, report, *_ = given
            if refused:
                error = KafkaError(KafkaError.INVALID_RECORD, "not that one")
                report(error, Message(value=value))
            else:
                super().produce(*given)
        if refused:
            self.refused.append(len(held))
        return super().flush(timeout)


async def parked_ids(pool: Pool) -> list[int]:
    return [each.event.event_id for each in await list_parked(pool, after=0, limit=100)]


async def test_a_refusing_report_parks_one_event_and_none_of_those_sent_with_it(
    pool: Pool, way: Way, topic: str, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "Producer", Picky)
    await add_queue(pool)
    async with relaying(pool, way, topic) as first:
        await first.stop()
        await submit(pool, 40)
        await run_jobs(pool, 40)
        Picky.unwanted = await pool.fetchval("SELECT job_id FROM jobqueue.jobs ORDER BY id LIMIT 1")
        Picky.refused = []
        unwanted = sorted(
            e for e, job, _ in await recorded_events(pool) if job == str(Picky.unwanted)
        )
    async with relaying(pool, way, topic):
        await all_arrive(pool, listener, without=unwanted)
    assert await parked_ids(pool) == unwanted
    assert {each.cause for each in await list_parked(pool, after=0, limit=9)} == {"not that one"}
    assert Picky.refused[0] > 1, "innocent ones were refused with it"
    assert len(listener.heard) == len(listener.first_deliveries()), "none was sent twice"
    monkeypatch.undo()
    assert await resend_parked(pool, None) == len(unwanted)
    async with relaying(pool, way, topic):
        await all_arrive(pool, listener)
        await eventually(lambda: _none_parked(pool), within_s=30)


async def _none_parked(pool: Pool) -> bool:
    return not await parked_ids(pool)


class Slow(publisher.Publisher):
    """Has a wave under way for as long as it is told to, in parts."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.begun, self.done = asyncio.Event(), asyncio.Event()

    async def publish(self, records: Sequence[Record]) -> dict[int, publisher.Failure]:
        self.begun.set()
        await self.done.wait()
        return {}


async def test_a_wave_that_is_refused_in_many_parts_counts_as_progress_with_each_of_them(
    pool: Pool, way: Way, topic: str
) -> None:
    slow = Slow(way.settings(topic))
    relay = Relay(pool, slow, holder="test", event_bytes=1_000, lease_s=3.0)
    await relay.start()
    await add_queue(pool)
    await submit(pool, 1)
    async with asyncio.timeout(HANG_S):
        await slow.begun.wait()
    for _ in range(2):
        before = relay.last_progress
        slow.flights += 1
        await eventually(lambda before=before: _moved(relay, before), within_s=30)  # type: ignore[misc]
    slow.done.set()
    await relay.stop()


async def _moved(relay: Relay, before: float) -> bool:
    return relay.last_progress > before


async def test_batches_that_are_too_large_for_a_broker_are_sent_in_parts(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    way.largest_batch = LIMIT_BYTES
    async with relaying(pool, way, topic):
        await add_queue(pool)
        await run_jobs(pool, 300)
        await all_arrive(pool, listener)
    assert way.requests_refused > 0, "some batches were too large"
    assert not await parked_ids(pool)
    assert len(listener.heard) == len(listener.first_deliveries()), "none was sent twice"


async def test_a_page_of_refused_events_is_parked_by_one_statement(
    database: str, pool: Pool, way: Way, topic: str
) -> None:
    async with relaying(pool, way, topic) as first:
        await first.stop()
    await add_queue(pool)
    await submit(pool, REFUSED)
    failures = [settlement(job, Failed(noise(2_000))) for job in await claim(pool, REFUSED)]
    await settle_leases(pool, worker=WORKER, settlements=failures)
    async with QueryCounter(database) as counter:
        counted = await create_pool(counter.dsn, connect_timeout_s=HANG_S)
        async with relaying(counted, way, topic, **{"message.max.bytes": 1_500}):

            async def all_parked() -> bool:
                return int(await pool.fetchval(PARKED)) == REFUSED

            await eventually(all_parked, within_s=60, what="refused events")
        await counted.close()
    assert counter.queries < REFUSED


async def test_what_is_resent_does_not_hold_up_what_is_new(
    pool: Pool, way: Way, topic: str, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueue.events.relay._RESEND_PAGE", 1)
    async with relaying(pool, way, topic) as first:
        await first.stop()
    await add_queue(pool)
    await run_jobs(pool, 100)
    await park_all(pool)
    resent = await resend_parked(pool, None)
    await submit(pool, 1)
    async with relaying(pool, way, topic):
        await eventually(lambda: _heard_newest(pool, listener), within_s=60)
        assert len(listener.heard) < resent / 2
        await all_arrive(pool, listener)


async def test_pages_that_an_outage_made_small_grow_with_what_is_resent(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    async with relaying(pool, way, topic) as first:
        await first.stop()
    await add_queue(pool)
    await run_jobs(pool, 20)
    await park_all(pool)
    await resend_parked(pool, None)
    recovered = relay(pool, way.settings(topic))
    for _ in range(9):
        recovered._pages.shrink()
    least = recovered._pages.sized(PAGE_EVENTS)
    await recovered.start()
    await eventually(lambda: _none_parked(pool))
    await recovered.stop()
    assert recovered._pages.sized(PAGE_EVENTS) > 2 * least
    await all_arrive(pool, listener)


async def _heard_newest(pool: Pool, listener: Listener) -> bool:
    newest = max(event_id for event_id, _, _ in await recorded_events(pool))
    return newest in {each.event.event_id for each in listener.listen(0.01)}


async def park_all(pool: Pool) -> None:
    """Let a relay have been refused everything so far."""
    lease = await take_cursor(pool, "kafka", "test", HANG_S)
    assert lease is not None
    window = await open_window(pool, lease)
    assert window is not None
    page = await read_page(pool, lease, window, most_events=9_999, most_bytes=9_999)
    events = sorted(event for group in page.groups for event in group.events())
    await park_events(pool, [(event, "not now") for event in events])
    assert await move_cursor(pool, lease, window.last)
    assert await extend_cursor(pool, lease, 0.0)


async def test_an_event_too_large_for_a_broker_is_parked_and_the_rest_of_its_batch_flows(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    parked: list[Parked] = []
    end = EVENTS_PARKED.subscribe(parked.append)
    way.largest_batch = LIMIT_BYTES
    async with relaying(pool, way, topic):
        await add_queue(pool)
        await submit(pool, 51)
        large, *small = await claim(pool, 51)
        await settle(pool, large, Failed(noise(2 * LIMIT_BYTES)))
        for job in small:
            await settle(pool, job)

        async def one_is_parked() -> bool:
            return len(parked) == 1

        await eventually(one_is_parked, within_s=30)
        await all_arrive(pool, listener, without=[parked[0].event_id])
    end()
    (found,) = await list_parked(pool, after=0, limit=10)
    assert (found.event.type, found.cause) == ("job.failed", "Broker: Message size too large")
    way.largest_batch = None
    await resend_parked(pool, [found.event.event_id])
    async with relaying(pool, way, topic):
        await all_arrive(pool, listener)
