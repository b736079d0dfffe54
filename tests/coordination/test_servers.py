"""Two servers and one Redis: whatever Redis does, each thing happens, and once."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.v1 import admin_service_pb2 as admin
from tests.support.facade import serving
from tests.support.programs import ServerProgram
from tests.support.redis import RedisServer
from tests.support.soundness import assert_sound
from tests.support.store import add_queue, claim, submit
from tests.support.waiting import eventually

JOBS = 120
DELAYS_S = (0.5, 1.0, 2.0, 3.0)
TTL_MS = 300
LONG_TTL_MS = 3_000
"""Of locks that a busy machine must not lose by itself."""
FAST = {"reaper__interval_ms": 50, "scheduler__interval_ms": 50}
ACTS, STANDS_BY = "acting: this server holds the lock", "standing by: another server acts"
WITHOUT = "acting without the lock"

LIFE = [
    "PENDING:SUBMITTED",
    *["ASSIGNED:CLAIMED", "RUNNING:STARTED", "FAILED:LEASE_EXPIRED", "PENDING:RETRY_DUE"],
    *["ASSIGNED:CLAIMED", "RUNNING:STARTED", "FAILED:LEASE_EXPIRED"],
    "DEAD_LETTERED:RETRIES_EXHAUSTED",
]
"""Of a job that is claimed twice by workers that die, with one retry."""

PATHS = """
    SELECT path, count(*) AS jobs FROM (
        SELECT array_agg(to_status || ':' || reason ORDER BY seq) AS path
        FROM jobqueue.job_event_log GROUP BY job
    ) p GROUP BY path
"""
ALL_DEAD = "SELECT bool_and(status = 'DEAD_LETTERED') FROM jobqueue.job_status"


@contextmanager
def two_servers(
    dsn: str, redis: RedisServer, folder: Path, ttl_ms: int = TTL_MS
) -> Iterator[Sequence[ServerProgram]]:
    started = [
        ServerProgram(
            dsn,
            folder,
            redis_addr=redis.addr,
            redis_lock_ttl_ms=ttl_ms,
            reaper_interval_ms=50,
            scheduler_interval_ms=50,
        )
        for _ in range(2)
    ]
    try:
        yield [server.ready() for server in started]
    finally:
        for server in started:
            server.kill()


@asynccontextmanager
async def meanwhile(repeat: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Repeat something until the block ends."""

    async def for_ever() -> None:
        while True:
            await repeat()

    task = asyncio.create_task(for_ever())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def said(server: ServerProgram, message: str) -> list[str]:
    """Return the locks of which a server said this, once for each time."""
    return [line["lock"] for line in server.lines() if line["message"] == message]


def stand(server: ServerProgram) -> dict[str, str]:
    """Return what a server said last of each lock."""
    return {line["lock"]: line["message"] for line in server.lines() if "lock" in line}


async def submit_mortal_jobs(conn: asyncpg.Connection, *delays_s: float) -> None:
    """Submit jobs with one retry, and as many for each delay."""
    await add_queue(conn, max_retries=1, retry=RetryPolicy(0.1, 0.1, 1.0))
    await submit(conn, JOBS)
    for delay_s in delays_s:
        await submit(conn, JOBS, delay_s=delay_s)


async def claim_and_die(conn: asyncpg.Connection) -> bool:
    """Claim as a worker that dies at once; tell whether every job has come to its end."""
    await claim(conn, 50, lease_s=0.1)
    return bool(await conn.fetchval(ALL_DEAD))


async def lives(conn: asyncpg.Connection) -> list[tuple[list[str], int]]:
    return [(row["path"], row["jobs"]) for row in await conn.fetch(PATHS)]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


async def test_with_redis_flushed_all_the_time_nothing_happens_twice(
    database: str, conn: asyncpg.Connection, redis_server: RedisServer, logs: Path
) -> None:
    flushes = 0

    async def flush() -> None:
        nonlocal flushes
        await asyncio.to_thread(redis_server.command, "FLUSHALL")
        flushes += 1

    with two_servers(database, redis_server, logs) as servers:
        await submit_mortal_jobs(conn, *DELAYS_S)
        async with meanwhile(flush):
            await eventually(lambda: claim_and_die(conn), within_s=60.0, what="the end of all jobs")

            async def both_acted() -> bool:
                return all(said(server, ACTS) for server in servers)

            await eventually(both_acted, what="acts of both servers")
    assert flushes > 50
    assert await lives(conn) == [(LIFE, JOBS * (1 + len(DELAYS_S)))]
    await assert_sound(conn)


async def test_a_holder_paused_beyond_its_lock_is_replaced_and_notices(
    database: str, conn: asyncpg.Connection, redis_server: RedisServer, logs: Path
) -> None:
    with two_servers(database, redis_server, logs, LONG_TTL_MS) as servers:
        await submit_mortal_jobs(conn)

        async def decided() -> dict[str, ServerProgram]:
            by_word = {stand(s).get("reaper", ""): s for s in servers}
            return by_word if by_word.keys() == {ACTS, STANDS_BY} else {}

        by_word = await eventually(decided, what="one holder")
        holder, other = by_word[ACTS], by_word[STANDS_BY]
        holder.send(signal.SIGSTOP)

        async def taken_over() -> bool:
            return set(stand(other).values()) == {ACTS}

        await eventually(taken_over, what="the take-over")
        before = len(holder.lines())
        held = {lock for lock, word in stand(holder).items() if word == ACTS}
        await eventually(lambda: claim_and_die(conn), within_s=60.0, what="the end of all jobs")
        holder.send(signal.SIGCONT)

        async def noticed() -> bool:
            new = holder.lines()[before:]
            return held <= {line["lock"] for line in new if line["message"] == STANDS_BY}

        await eventually(noticed, what="the holder's notice")
    assert await lives(conn) == [(LIFE, JOBS)]
    await assert_sound(conn)


async def test_a_server_without_its_redis_acts_says_so_and_recovers(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    redis = RedisServer(tmp_path)
    redis.kill()
    await submit_mortal_jobs(conn)
    async with serving(database, redis__addr=redis.addr, redis__lock_ttl_ms=TTL_MS) as facade:

        async def reported() -> tuple[str, str]:
            status = await facade.admin.GetSystemStatus(admin.GetSystemStatusRequest())
            (found,) = [part for part in status.components if part.name == "redis"]
            return found.state, found.detail

        async def is_so(state: str) -> bool:
            return (await reported())[0] == state

        await eventually(lambda: is_so("degraded"), what="the notice that Redis is away")
        assert "acting without the lock" in (await reported())[1]
        await eventually(lambda: claim_and_die(conn), within_s=60.0, what="the end of all jobs")
        redis.start()
        await eventually(lambda: is_so("ok"), what="the return of Redis")
        assert (await reported())[1] == "reaper held, scheduler held"
        keys = await lock_keys(conn)

        async def locked() -> bool:
            return sorted(redis.command("KEYS", "*")) == keys

        await eventually(locked, what="both locks")
    assert redis.command("KEYS", "*") == []
    redis.kill()
    await assert_sound(conn)


@contextmanager
def read_only(redis: RedisServer) -> Iterator[None]:
    redis.read_only()
    try:
        yield
    finally:
        redis.writable()


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (RedisServer.hanging, "Timeout"),
        (read_only, "read only replica"),
        (partial(RedisServer.protected, password="unknown to the server"), "[Aa]uthenticat"),
    ],
    ids=["slow", "read only", "wrong password"],
)
async def test_jobs_of_dead_workers_come_to_their_end_whatever_redis_says(
    database: str,
    conn: asyncpg.Connection,
    redis_server: RedisServer,
    spoiled: Callable[[RedisServer], AbstractContextManager[None]],
    words: str,
) -> None:
    await submit_mortal_jobs(conn)
    settings = {"redis__addr": redis_server.addr, "redis__connect_timeout_ms": TTL_MS, **FAST}
    with spoiled(redis_server):
        async with serving(database, **settings) as facade:
            await eventually(lambda: claim_and_die(conn), within_s=60.0, what="the end of all jobs")
            status = await facade.admin.GetSystemStatus(admin.GetSystemStatusRequest())
    (part,) = [part for part in status.components if part.name == "redis"]
    assert part.state == "degraded"
    assert re.search(words, part.detail)
    assert await lives(conn) == [(LIFE, JOBS)]
    await assert_sound(conn)


async def lock_keys(conn: asyncpg.Connection) -> list[str]:
    """Return the names of the locks: those of another database are others."""
    name = await conn.fetchval(
        "SELECT system_identifier || '-' || (SELECT oid FROM pg_database "
        "WHERE datname = current_database()) FROM pg_control_system()"
    )
    return [f"jobqueue:{name}:lock:reaper", f"jobqueue:{name}:lock:scheduler"]


async def test_each_change_is_one_line_of_the_log(
    database: str, redis_server: RedisServer, logs: Path
) -> None:
    patient = {"redis_lock_ttl_ms": TTL_MS, "redis_connect_timeout_ms": 60_000}
    server = ServerProgram(database, logs, redis_addr=redis_server.addr, **patient)
    try:
        server.ready()

        async def stands(message: str) -> bool:
            return list(stand(server).values()) == [message] * 2

        await eventually(lambda: stands(ACTS), what="the lock")
        redis_server.read_only()
        await eventually(lambda: stands(WITHOUT), what="the notice of a refusal")
        turns = await turns_of_redis(redis_server)
        await eventually(
            lambda: has_grown(redis_server, turns + 10), what="more turns that are refused"
        )
        redis_server.writable()
        await eventually(lambda: stands(ACTS), what="the lock")
        server.send(signal.SIGTERM)
        assert server.ended() == 0
    finally:
        redis_server.writable()
        server.kill()
    changes = [line["message"] for line in server.lines() if line.get("lock") == "reaper"]
    assert changes == [ACTS, WITHOUT, ACTS]


async def turns_of_redis(redis: RedisServer) -> int:
    """Return how often a lock was asked for."""
    stats = redis.command("INFO", "commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("set", "evalsha"))


async def has_grown(redis: RedisServer, to: int) -> bool:
    return await turns_of_redis(redis) >= to
