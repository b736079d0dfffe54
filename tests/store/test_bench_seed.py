"""What the benchmark puts into tables, and reads from them, fits the schema."""

import os

import asyncpg
import pytest

from bench.measure import Meter
from bench.ours import Ours
from bench.peers.base import nothing_in
from bench.seed import add_finished, add_ready, add_scheduled
from bench.systems import QUEUE
from tests.support.store import add_queue, claim, probes, settle


async def statuses(conn: asyncpg.Connection) -> dict[str, int]:
    rows = await conn.fetch("SELECT status, count(*) FROM jobqueue.job_status GROUP BY 1")
    return {row["status"]: row["count"] for row in rows}


async def test_seeded_jobs_are_jobs(conn: asyncpg.Connection) -> None:
    await add_queue(conn, QUEUE)
    await add_finished(conn, 3)
    await add_ready(conn, 20)
    await add_scheduled(conn, 4)
    assert await statuses(conn) == {"DONE": 3, "PENDING": 24}
    assert await conn.fetchval("SELECT count(DISTINCT priority) FROM jobqueue.ready") == 10
    jobs = await claim(conn, 30, where=probes((QUEUE,)), types=("noop",))
    assert len(jobs) == 20
    assert {len(job.payload) for job in jobs} == {100}


@pytest.mark.direct  # the counters are those of a session
async def test_probes_follow_a_job_on_its_way(conn: asyncpg.Connection) -> None:
    ask = Ours().probes
    await add_queue(conn, QUEUE)

    async def answers() -> tuple[bool, bool, int]:
        taken, empty, left = [await conn.fetchval(q) for q in (ask.taken, ask.empty, ask.left)]
        return taken, empty, left

    assert await answers() == (False, True, 0)
    await add_ready(conn, 1)
    assert await answers() == (False, False, 1)
    (job,) = await claim(conn, 1, where=probes((QUEUE,)), types=("noop",))
    assert await answers() == (True, False, 1)
    await settle(conn, job)
    assert await answers() == (True, True, 0)
    await conn.execute("SELECT pg_stat_force_next_flush()")
    assert await conn.fetchval(ask.done) == 1


@pytest.mark.direct  # a temporary table is a session's own
async def test_a_table_is_empty_whichever_row_goes_last(conn: asyncpg.Connection) -> None:
    await conn.execute("CREATE TEMP TABLE jobs_of_a_peer (id int GENERATED ALWAYS AS IDENTITY)")
    await conn.execute("INSERT INTO jobs_of_a_peer SELECT FROM generate_series(1, 3)")
    answers = []
    for goes in (2, 3, 1):
        answers.append(await conn.fetchval(nothing_in("jobs_of_a_peer")))
        await conn.execute("DELETE FROM jobs_of_a_peer WHERE id = $1", goes)
    assert answers == [False] * 3
    assert await conn.fetchval(nothing_in("jobs_of_a_peer"))


@pytest.mark.direct  # commits as the session says
async def test_page_images_are_told_apart(conn: asyncpg.Connection) -> None:
    try:
        await conn.execute("CREATE EXTENSION pg_walinspect")
    except asyncpg.PostgresError as error:
        pytest.skip(f"this PostgreSQL has no pg_walinspect: {error}")
    await conn.execute("SET synchronous_commit = on")  # as it is where anything is measured
    await add_queue(conn, QUEUE)
    meter = Meter(conn, os.getpid())
    assert (await meter.since(await meter.read())).images == 0
    await add_ready(conn, 100)
    first = await meter.read()
    await add_ready(conn, 100)
    rest = await meter.since(first)
    await conn.execute("SET wal_consistency_checking = 'all'")  # every record brings its page
    first = await meter.read()
    await add_ready(conn, 100)
    whole = await meter.since(first)
    assert whole.images > 100 * 1000
    assert whole.wal - whole.images < 2 * rest.wal
