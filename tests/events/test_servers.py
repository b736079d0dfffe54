"""Real servers: one takes over from another that is stopped for longer than its lease."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobqueue.store.pool import Pool
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.programs import ServerProgram, dry_run
from tests.support.redis import free_port
from tests.support.relays import all_arrive, run_jobs
from tests.support.store import add_queue
from tests.support.waiting import eventually

HOLDS = "publishing events to Kafka"
WINDOW = """
    SELECT window_eid, window_last_eid FROM jobqueue.event_cursors
    WHERE name = 'kafka' AND window_end IS NOT NULL
"""
EXPIRE = "UPDATE jobqueue.event_cursors SET expires_at = now() WHERE name = 'kafka'"


@contextmanager
def two_servers(dsn: str, way: Way, topic: str, folder: Path) -> Iterator[list[ServerProgram]]:
    (broker,) = way.settings(topic).brokers
    started = [
        ServerProgram(dsn, folder, kafka_brokers=broker, kafka_topic=topic) for _ in range(2)
    ]
    try:
        yield [server.ready() for server in started]
    finally:
        for server in started:
            server.kill()


async def test_a_stopped_server_is_replaced_and_harms_nothing_when_it_comes_back(
    database: str, pool: Pool, way: Way, topic: str, listener: Listener, tmp_path: Path
) -> None:
    with two_servers(database, way, topic, tmp_path) as servers:
        await add_queue(pool)
        await run_jobs(pool, 50)
        await all_arrive(pool, listener)
        (holder,) = [server for server in servers if HOLDS in server.text()]
        (other,) = [server for server in servers if server is not holder]
        holder.send(signal.SIGSTOP)
        await run_jobs(pool, 50)

        async def taken_over() -> bool:
            return HOLDS in other.text()

        await eventually(taken_over, within_s=60, what="a take-over")
        await all_arrive(pool, listener)
        holder.send(signal.SIGCONT)
        await run_jobs(pool, 50)
        await all_arrive(pool, listener)


async def test_a_server_killed_in_the_middle_of_a_page_is_replaced_and_only_that_page_repeats(
    database: str, pool: Pool, way: Way, topic: str, listener: Listener, tmp_path: Path
) -> None:
    with two_servers(database, way, topic, tmp_path) as servers:
        await add_queue(pool)
        await run_jobs(pool, 20)
        await all_arrive(pool, listener)
        (holder,) = [server for server in servers if HOLDS in server.text()]
        before = len(listener.heard)
        way.hold_answers()
        async with pool.acquire() as connection, connection.transaction():
            await run_jobs(connection, 50)
        await eventually(lambda: _heard_more(listener, before), what="records without an answer")
        holder.kill()
        window = await pool.fetchrow(WINDOW)
        assert window is not None, "it died before it could pass the page"
        arrived = {each.event.event_id for each in listener.listen(1.0)[before:]}
        way.release_answers()
        await pool.execute(EXPIRE)
        await all_arrive(pool, listener)
    times = Counter(each.event.event_id for each in listener.heard)
    repeated = {eid for eid, count in times.items() if count > 1}
    page = set(range(window["window_eid"] + 1, window["window_last_eid"] + 1))
    assert arrived <= repeated < page, "it died when some of the page had arrived, and some had not"
    assert max(times.values()) == 2


async def _heard_more(listener: Listener, before: int) -> bool:
    return len(await asyncio.to_thread(listener.listen)) > before


def test_a_dry_run_says_that_kafka_cannot_be_reached_and_ends_with_1(database: str) -> None:
    told = dry_run(db_url=database, kafka_brokers=f"127.0.0.1:{free_port()}")
    assert told.returncode == 1
    assert b"Kafka" in told.stderr


def test_a_dry_run_looks_at_the_topic(database: str, way: Way, topic: str) -> None:
    (broker,) = way.settings(topic).brokers
    told = dry_run(db_url=database, kafka_brokers=broker, kafka_topic=topic)
    assert told.returncode == 0, told.stderr
    assert f"kafka: 1 brokers, topic {topic}, 3 partitions".encode() in told.stdout
