"""What is committed arrives in Kafka, in the order of each job, whatever else goes on."""

import asyncio

import asyncpg
import pytest

from jobqueue.domain.outcome import Failed
from jobqueue.events import pages
from jobqueue.events.publisher import MAX_IN_FLIGHT
from jobqueue.store.jobs import delete_job
from jobqueue.store.pool import Pool
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.relays import EVENTS_PER_JOB, all_arrive, relaying, run_jobs
from tests.support.store import add_queue, claim, settle, spec, store, submit

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_every_transition_arrives_once_and_in_order(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    async with relaying(pool, way, topic) as relay:
        await add_queue(pool)
        await run_jobs(pool, 300)
        await all_arrive(pool, listener)
        assert relay._publisher.most_in_flight <= MAX_IN_FLIGHT
    assert len(listener.heard) == EVENTS_PER_JOB * 300, "without a fault nothing is sent twice"


async def test_a_message_carries_cloudevents_headers_and_the_job_as_its_key(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    async with relaying(pool, way, topic):
        await add_queue(pool)
        (stored,) = await store(pool, [spec(trace_context={"traceparent": TRACE})])
        await all_arrive(pool, listener)
    (heard,) = listener.heard
    job_id = str(stored.job_id)
    assert heard.key == heard.event.job_id == job_id
    assert heard.headers.pop("ce_time").endswith("Z")
    assert heard.headers == {
        "content-type": "application/protobuf",
        "ce_specversion": "1.0",
        "ce_id": str(heard.event.event_id),
        "ce_source": "/jobqueue",
        "ce_type": "job.submitted",
        "ce_subject": job_id,
        "traceparent": TRACE,
    }
    assert (heard.event.type, heard.event.queue) == ("job.submitted", "q")


async def test_events_of_a_job_that_was_deleted_before_still_name_it(
    pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    async with relaying(pool, way, topic):
        await add_queue(pool)
        way.cut()
        await run_jobs(pool, 1)
        job_id = await pool.fetchval("SELECT job_id FROM jobqueue.jobs")
        assert await delete_job(pool, job_id) == "DELETED"
        way.open()
        await all_arrive(pool, listener)
    assert {each.event.job_id for each in listener.heard} == {str(job_id)}


async def test_a_transaction_that_stays_open_holds_up_nobody_else_and_is_not_missed(
    pool: Pool, way: Way, topic: str, listener: Listener, conn: asyncpg.Connection
) -> None:
    async with relaying(pool, way, topic):
        await add_queue(pool)
        idle = conn.transaction()
        await idle.start()
        await submit(conn, 2)
        async with conn.transaction():  # a savepoint
            await submit(conn, 3)
        undone = conn.transaction()
        await undone.start()
        await submit(conn, 4)
        await undone.rollback()
        await run_jobs(pool, 20)
        await all_arrive(pool, listener)
        assert len(listener.heard) == 80
        await idle.commit()
        await all_arrive(pool, listener)
    assert len(listener.heard) == 85


async def test_rows_that_become_visible_out_of_order_are_not_missed(
    pool: Pool, way: Way, topic: str, listener: Listener, conn: asyncpg.Connection
) -> None:
    await conn.execute("""
        CREATE FUNCTION jobqueue.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.job % 7 = 0 THEN PERFORM pg_sleep(0.05); END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER dawdle AFTER INSERT ON jobqueue.job_events
            FOR EACH ROW EXECUTE FUNCTION jobqueue.dawdle();
    """)
    async with relaying(pool, way, topic):
        await add_queue(pool)
        await asyncio.gather(*(submit(pool, 1) for _ in range(60)))
        await all_arrive(pool, listener)


async def test_a_prepared_transaction_arrives_after_its_commit(
    pool: Pool, way: Way, topic: str, listener: Listener, conn: asyncpg.Connection
) -> None:
    async with relaying(pool, way, topic):
        await add_queue(pool)
        await conn.execute("BEGIN")
        await submit(conn, 1)
        await conn.execute("PREPARE TRANSACTION 'later'")
        await submit(pool, 1)
        await all_arrive(pool, listener)
        await conn.execute("COMMIT PREPARED 'later'")
        await all_arrive(pool, listener)
    assert len(listener.heard) == 2


async def test_a_window_larger_than_a_page_is_read_in_pages(
    pool: Pool, way: Way, topic: str, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with relaying(pool, way, topic) as first:
        await add_queue(pool)
        await first.stop()
        await submit(pool, 3_000)
    monkeypatch.setattr(pages, "PAGE_EVENTS", 700)
    async with relaying(pool, way, topic) as second:
        await all_arrive(pool, listener)
        assert 0 < second._publisher.most_in_flight <= 700
    assert len(listener.heard) == 3_000


async def test_a_page_ends_early_where_details_are_large_and_nothing_is_left_out(
    pool: Pool, way: Way, topic: str, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with relaying(pool, way, topic) as first:
        await add_queue(pool)
        await first.stop()
        await submit(pool, 60)
        for job in await claim(pool, 60):
            await settle(pool, job, Failed("x" * 1_000))
    monkeypatch.setattr(pages, "PAGE_BYTES", 10_000)
    async with relaying(pool, way, topic) as second:
        await all_arrive(pool, listener)
        assert second._publisher.flights > 6, "ten kilobytes of sixty at a time"
    assert len(listener.heard) == len(listener.first_deliveries()), "none was sent twice"
