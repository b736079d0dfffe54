"""PostgreSQL crashes or becomes a standby: watchers and Kafka get every event (R-6.2)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.client import AsyncClient
from jobqueue.errors import FailedPrecondition
from jobqueue.runtime.service import TURN_ENDED, TurnEnded
from jobqueue.store.migrate import migrate
from jobqueue.store.pool import Pool, create_pool
from tests.support.crashing_postgres import CrashingPostgres
from tests.support.facade import serving
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.programs import ctl_command, environment
from tests.support.relays import all_arrive, recorded_events, run_jobs
from tests.support.store import add_queue, submit
from tests.support.waiting import eventually


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[CrashingPostgres]:
    running = CrashingPostgres(tmp_path / "pg")
    yield running
    running.close()


@pytest_asyncio.fixture
async def pool(postgres: CrashingPostgres) -> AsyncIterator[Pool]:
    await migrate(postgres.dsn)
    opened = await create_pool(postgres.dsn, size=4)
    await add_queue(opened)
    yield opened
    opened.terminate()


class Follower:
    """A `jq-ctl events tail --follow`, and what it printed."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def seen(self) -> list[int]:
        whole, _, _ = self._log.read_text().rpartition("\n")
        return [int(json.loads(line)["event_id"]) for line in whole.splitlines()]

    async def sees_all(self, pool: Pool) -> None:
        """Wait until it has seen every event; each was seen once."""
        recorded = sorted(eid for eid, _, _ in await recorded_events(pool))

        async def complete() -> bool:
            return len(self.seen()) >= len(recorded)

        await eventually(complete, within_s=60, what=f"{len(recorded)} events")
        assert sorted(self.seen()) == recorded


@asynccontextmanager
async def following(port: int, log: Path) -> AsyncIterator[Follower]:
    argv = ctl_command("events", "tail", "--follow", "--from", "0", "--output", "json")
    env = environment(server_addr=f"127.0.0.1:{port}")
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*argv, env=env, stdout=out)
    try:
        yield Follower(log)
        assert process.returncode is None, "it goes on"
    finally:
        process.kill()
        await process.wait()


async def test_a_follower_and_kafka_get_each_event_when_the_database_crashes(
    postgres: CrashingPostgres, pool: Pool, way: Way, topic: str, listener: Listener, tmp_path: Path
) -> None:
    kafka = {"kafka__brokers": way.settings(topic).brokers, "kafka__topic": topic}
    async with serving(postgres.dsn, **kafka) as server:
        await run_jobs(pool, 5)
        async with following(server.port, tmp_path / "seen.jsonl") as follower:
            await follower.sees_all(pool)
            victim = await asyncpg.connect(postgres.dsn)
            await victim.execute("BEGIN")
            await submit(victim, 3)
            await postgres.crash_backend(pool, victim)
            await run_jobs(pool, 5)
            await follower.sees_all(pool)
            await postgres.crash(pool)
            await run_jobs(pool, 5)
            await follower.sees_all(pool)
        await all_arrive(pool, listener, within_s=60)


async def test_on_a_standby_nothing_is_published_and_all_goes_on_when_it_is_promoted(
    postgres: CrashingPostgres, pool: Pool, way: Way, topic: str, listener: Listener, tmp_path: Path
) -> None:
    failed: list[TurnEnded] = []
    kafka = {"kafka__brokers": way.settings(topic).brokers, "kafka__topic": topic}
    async with serving(postgres.dsn, **kafka) as server:
        await run_jobs(pool, 5)
        async with following(server.port, tmp_path / "seen.jsonl") as follower:
            await follower.sees_all(pool)
            await all_arrive(pool, listener)
            await postgres.crash(pool, standby=True)
            end = TURN_ENDED.subscribe(failed.append)

            async def relay_fails() -> bool:
                return any(turn.service == "event-relay" and turn.error for turn in failed)

            await eventually(relay_fails, within_s=60, what="a relay that cannot write")
            async with AsyncClient(f"127.0.0.1:{server.port}") as client:
                with pytest.raises(FailedPrecondition, match="standby"):
                    [event async for event in client.tail_events()]
            await postgres.promote()
            await run_jobs(pool, 5)
            await follower.sees_all(pool)
            await all_arrive(pool, listener, within_s=60)
    end()
