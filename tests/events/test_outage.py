"""Ten thousand jobs through a whole server, with Kafka cut off for the middle third of them."""

import psutil
import pytest

from jobqueue.domain.limits import MIB
from jobqueue.store.pool import Pool
from tests.support.facade import serving
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.relays import EVENTS_PER_JOB, all_arrive, run_jobs
from tests.support.store import add_queue
from tests.support.waiting import eventually

JOBS, BATCH = 10_000, 500


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_ten_thousand_jobs_lose_no_event_when_kafka_is_away_for_the_middle_third(
    database: str, pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    brokers = way.settings(topic).brokers
    process = psutil.Process()
    async with serving(database, kafka__brokers=brokers, kafka__topic=topic):
        await add_queue(pool)
        rss: list[int] = []
        for done in range(0, JOBS, BATCH):
            third = 3 * done // JOBS
            if third == 1 and not rss:
                way.cut()
            if third == 1:
                rss.append(process.memory_info().rss)
            if third == 2 and not way.passable:
                await eventually(lambda: _refused(way), what="an attempt that was turned away")
                way.open()
            await run_jobs(pool, BATCH)
        assert rss[-1] - rss[0] < 64 * MIB, "what it cannot send is not in memory"
        await all_arrive(pool, listener, within_s=90)
    assert len(listener.first_deliveries()) == JOBS * EVENTS_PER_JOB


async def _refused(way: Way) -> bool:
    return way.refused > 0
