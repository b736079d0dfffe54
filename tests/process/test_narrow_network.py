"""Behind a narrow network a worker claims and settles as much as comes through (R-4.1, R-4.2)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueue.embedded.facts import read_facts
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.store.migrate import migrate
from jobqueue.store.pool import connect
from tests.chaos.network import Link, Weather, to_socket
from tests.support.programs import WorkerProgram
from tests.support.store import add_queue, submit
from tests.support.waiting import HANG_S, eventually

SLOTS, JOBS = 16, 20
LARGE = b"x" * 131_072
PIECE_S = 0.1
"""What 64 KiB take: 16 large jobs take 3 s."""
LEASE_S = 8
"""No statement of the worker may take more than a quarter of it."""
WAY = "SELECT format('postgresql://%s@%s/%s', current_user, $1::text, current_database())"
ENDS = "SELECT status, retry_count FROM jobqueue.job_status"


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[tuple[str, Link]]:
    """Yield the direct way to a database, and a narrow one."""
    with EmbeddedPostgres(tmp_path / "pg", durable=False) as server:
        facts = read_facts(server.data_dir)
        assert facts is not None
        link = Link(to_socket(str(facts.socket_path)), delay_s=PIECE_S)
        link.turn(Weather.SLOW)
        yield server.dsn, link
        link.close()


async def test_large_jobs_end_though_no_full_claim_comes_through_in_time(
    narrow: tuple[str, Link], tmp_path: Path
) -> None:
    dsn, link = narrow
    await migrate(dsn)
    db = await connect(dsn, connect_timeout_s=HANG_S)
    await add_queue(db)
    await submit(db, JOBS, type="echo", payload=LARGE)
    worker = WorkerProgram(
        await db.fetchval(WAY, link.address),
        tmp_path,
        "--queues",
        "q",
        "--concurrency",
        str(SLOTS),
        lease_duration_s=LEASE_S,
        lease_renew_interval_s=1,
        worker_heartbeat_interval_s=1,
    )

    async def all_done() -> bool:
        return [row["status"] for row in await db.fetch(ENDS)] == ["DONE"] * JOBS

    try:
        await eventually(all_done, within_s=2 * HANG_S, what="the end of all jobs")
    finally:
        worker.kill()
    late = [line for line in worker.lines() if line.get("loop") == "claim"]
    assert late, "the first claim was too large"
    # An answer that was cut off after its commit had its jobs handed back, uncharged.
    assert {row["retry_count"] for row in await db.fetch(ENDS)} == {0}
    await db.close()
