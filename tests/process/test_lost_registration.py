"""A worker that the database does not know any more, as after a failover that lost it (R-4.12)."""

from jobqueue.lease.interface import Forgotten
from jobqueue.store.pool import Connection
from tests.support.leases import Heard, open_leases, replace_keeper
from tests.support.store import forget_workers
from tests.support.waiting import eventually

REGISTERED = "SELECT worker_id, started_at FROM jobqueue.workers"
BEATS = "SELECT last_beat_at > $1 FROM jobqueue.workers"


async def test_a_worker_that_got_another_number_is_told_once_and_leaves_no_row_behind(
    database: str, db: Connection
) -> None:
    async with open_leases(database) as leases:
        heard = Heard(leases)
        await forget_workers(db)
        await heard.hears(Forgotten())
        registered = await db.fetchrow(REGISTERED)
        assert registered is not None
        assert registered["worker_id"] != leases._worker
        await replace_keeper(leases)
        last = await db.fetchval("SELECT last_beat_at FROM jobqueue.workers")
        await eventually(lambda: db.fetchval(BEATS, last), what="a beat of that one")
        assert heard.news == [Forgotten()]
        assert await db.fetchrow(REGISTERED) == registered, "it registered once more"
    assert await db.fetchval("SELECT count(*) FROM jobqueue.workers") == 0
