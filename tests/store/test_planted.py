"""Times without an end, which a hand stored: they are no failure, and no figure (R-9.4)."""

import pytest

from jobqueue.lease.takeover import Takeover, expired
from jobqueue.store.doctor import find_overdue_jobs
from jobqueue.store.leases import start_leases
from jobqueue.store.pool import Connection
from tests.support.store import WORKER, add_queue, claim, submit

pytestmark = pytest.mark.direct


@pytest.mark.parametrize("at", ["infinity", "-infinity"])
async def test_a_job_that_is_ready_since_no_time_has_not_waited(bare: Connection, at: str) -> None:
    await add_queue(bare)
    await submit(bare, 2)
    await bare.execute("UPDATE jobqueue.ready SET ready_at = $1::text::timestamptz", at)
    (run,) = await claim(bare)
    (prefetched,) = await claim(bare, running=False)
    leases = [prefetched.lease]
    (started,) = await start_leases(bare, worker=WORKER, leases=leases, lease_s=60.0)
    assert (run.waited_s, started.waited_s) == (0.0, 0.0)


async def test_attempts_of_ages_ago_are_taken_back_and_told_as_overdue(bare: Connection) -> None:
    await add_queue(bare)
    await submit(bare, 3)
    await claim(bare, 3)
    await bare.execute("UPDATE jobqueue.leases SET expires_at = '-infinity'")
    await bare.execute("UPDATE jobqueue.leases SET started_at = '-infinity' WHERE id = 1")
    await bare.execute("UPDATE jobqueue.leases SET started_at = 'infinity' WHERE id = 2")
    assert (await find_overdue_jobs(bare, 60.0, 10))["leases"].total == 3
    assert (await Takeover(expired(), page_size=10, crash_limit=3).step(bare)).taken == 3
    took = "SELECT duration_ms IS NOT NULL FROM jobqueue.job_events WHERE reason = 'LEASE_EXPIRED'"
    known = await bare.fetch(f"{took} AND from_status = 'RUNNING' ORDER BY job")
    assert [row[0] for row in known] == [False, False, True]
