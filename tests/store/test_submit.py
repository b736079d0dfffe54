"""Taking jobs in: where they go, what they inherit, what is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from jobqueue.store.faults import rejected_item
from jobqueue.store.jobs import get_job
from jobqueue.store.pool import Connection
from tests.support.store import (
    add_queue,
    delete_queue,
    last_event,
    path,
    row_of,
    spec,
    status,
    store,
    store_items,
    submit,
)


async def test_a_fresh_job_is_ready_and_has_one_event(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    ready = await row_of(db, "ready", job_id)
    assert ready is not None
    assert (ready["seq"], ready["attempt"], ready["retries"], ready["crashes"]) == (1, 0, 0, 0)
    assert await path(db, job_id) == ["PENDING:SUBMITTED"]
    event = await last_event(db, job_id)
    assert (event["from_status"], event["attempt"], event["token"]) == (None, 0, None)


async def test_a_delayed_job_is_pending_with_a_future_not_before(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, delay_s=60.0)
    job = await get_job(db, job_id)
    assert job is not None
    assert job.not_before is not None
    assert job.status == "PENDING"
    assert job.not_before - job.created_at == timedelta(seconds=60)
    assert await row_of(db, "scheduled", job_id)


@pytest.mark.parametrize(
    "fields", [{"delay_s": 0.0}, {"not_before": datetime(2020, 1, 1, tzinfo=UTC)}]
)
async def test_a_delay_that_is_over_is_no_delay(db: Connection, fields: dict[str, Any]) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, **fields)
    assert await row_of(db, "ready", job_id)
    job = await get_job(db, job_id)
    assert job is not None
    assert job.not_before is None


async def test_a_not_before_beyond_the_horizon_is_refused(db: Connection) -> None:
    await add_queue(db)
    far = spec(not_before=datetime.now(UTC) + timedelta(days=2), idempotency_key="k")
    near = spec(not_before=datetime.now(UTC) + timedelta(hours=1))
    items = [(uuid4(), far), (uuid4(), near)]
    found = await store_items(db, items, horizon_s=86_400.0)
    assert [s.outcome for s in found] == ["TOO_FAR", "NEW"]
    assert await db.fetchval("SELECT count(*) FROM jobqueue.idempotency_keys") == 0


async def test_ids_come_back_in_the_order_of_the_batch(db: Connection) -> None:
    await add_queue(db)
    items = [(uuid4(), spec(payload=b"%d" % i, delay_s=i % 2)) for i in range(500)]
    found = await store_items(db, items, atomic=True)
    assert [s.job_id for s in found] == [job_id for job_id, _ in items]
    in_order = await db.fetch("SELECT job_id, payload FROM jobqueue.jobs ORDER BY id")
    assert [r["job_id"] for r in in_order] == [job_id for job_id, _ in items]


async def test_what_a_job_does_not_say_its_queue_says(db: Connection) -> None:
    await add_queue(db, max_retries=7, ttl_s=50.0)
    silent, loud = (await submit(db))[0], (await submit(db, max_retries=0, ttl_s=5.0))[0]
    inherited, own = await get_job(db, silent), await get_job(db, loud)
    assert inherited is not None
    assert own is not None
    assert (inherited.max_retries, inherited.ttl_s) == (7, 50.0)
    assert (own.max_retries, own.ttl_s) == (0, 5.0)


async def test_a_ttl_counts_from_not_before(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, ttl_s=10.0, delay_s=100.0)
    scheduled = await row_of(db, "scheduled", job_id)
    job = await get_job(db, job_id)
    assert scheduled is not None
    assert job is not None
    assert scheduled["expires_at"] == job.created_at + timedelta(seconds=110)


async def test_everything_submitted_can_be_read_back(db: Connection) -> None:
    await add_queue(db)
    fields: dict[str, Any] = {
        "payload": bytes(range(256)),
        "priority": 9,
        "timeout_s": 1.5,
        "tenant": "acme",
        "idempotency_key": "grüße",
        "labels": {"ä": "1"},
        "trace_context": {"traceparent": "00-ab"},
    }
    (job_id,) = await submit(db, **fields)
    job = await get_job(db, job_id)
    assert job is not None
    assert {name: getattr(job, name) for name in fields} == fields


async def test_each_job_of_a_mixed_batch_keeps_what_it_said(db: Connection) -> None:
    await add_queue(db, max_retries=7)
    said: list[dict[str, Any]] = [
        {"type": "a", "priority": 9, "max_retries": 1, "tenant": "t", "labels": {"a": "1"}},
        {"type": None},
        {"type": "b", "max_retries": 0, "idempotency_key": "k", "timeout_s": 1.5},
        {"type": None, "trace_context": {"traceparent": "00-ab"}},
    ]
    stored = await store(db, [spec(**fields) for fields in said], atomic=True)
    silent: dict[str, Any] = {
        "type": None,
        "priority": 0,
        "max_retries": 7,
        "tenant": "",
        "labels": {},
    }
    silent |= {"idempotency_key": None, "timeout_s": None, "trace_context": {}}
    for one, fields in zip(stored, said, strict=True):
        job = await get_job(db, one.job_id)
        assert {name: getattr(job, name) for name in silent} == silent | fields


async def test_one_id_twice_in_a_flush_is_one_job(db: Connection) -> None:
    await add_queue(db)
    job_id = uuid4()
    found = await store_items(db, [(job_id, spec()), (job_id, spec()), (uuid4(), spec())])
    assert [s.outcome for s in found] == ["NEW", "REPEATED", "NEW"]
    assert await db.fetchval("SELECT count(*) FROM jobqueue.jobs") == 2


async def test_one_unknown_queue_fails_an_atomic_batch_and_names_its_index(db: Connection) -> None:
    await add_queue(db)
    specs = [spec(idempotency_key="k"), spec(), spec(queue="nowhere"), spec(queue="neither")]
    with pytest.raises(asyncpg.PostgresError) as caught:
        await store(db, specs, atomic=True)
    assert rejected_item(caught.value) == (2, "NO_QUEUE")
    for table in ("jobs", "ready", "job_events", "idempotency_keys"):
        assert await db.fetchval(f"SELECT count(*) FROM jobqueue.{table}") == 0


async def test_one_unknown_queue_harms_no_other_job_of_a_joined_flush(db: Connection) -> None:
    await add_queue(db)
    found = await store(db, [spec(), spec(queue="nowhere", idempotency_key="k"), spec()])
    assert [s.outcome for s in found] == ["NEW", "NO_QUEUE", "NEW"]
    assert [await status(db, s.job_id) for s in found] == ["PENDING", None, "PENDING"]
    assert await db.fetchval("SELECT count(*) FROM jobqueue.idempotency_keys") == 0


async def test_a_deleted_queue_takes_no_jobs_and_its_name_can_be_had_again(db: Connection) -> None:
    await add_queue(db, max_retries=1)
    await delete_queue(db, "q", force=False)
    assert [s.outcome for s in await store(db, [spec()])] == ["NO_QUEUE"]
    await add_queue(db, max_retries=2)
    (job_id,) = await submit(db)
    job = await get_job(db, job_id)
    assert job is not None
    assert job.max_retries == 2


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_repeated_submission_stores_nothing_twice(db: Connection, key: str | None) -> None:
    await add_queue(db)
    items = [(uuid4(), spec(idempotency_key=key, delay_s=d)) for d in (0.0, 60.0)][
        : 1 if key else 2
    ]
    for outcome in ("NEW", "REPEATED"):
        found = await store_items(db, items, atomic=True)
        assert [(s.job_id, s.outcome) for s in found] == [(job_id, outcome) for job_id, _ in items]
    for table in ("jobs", "job_events"):
        assert await db.fetchval(f"SELECT count(*) FROM jobqueue.{table}") == len(items)


async def test_a_job_is_as_old_as_its_insert_not_as_its_transaction(db: Connection) -> None:
    await add_queue(db)
    async with db.transaction():
        await db.execute("SELECT pg_sleep(0.05)")  # the transaction's age is the fault
        (job_id,) = await submit(db)
        begun = await db.fetchval("SELECT now()")
    job = await get_job(db, job_id)
    event = await last_event(db, job_id)
    assert job is not None
    assert job.created_at - begun >= timedelta(milliseconds=50)
    assert event["at"] >= job.created_at  # type: ignore[operator]


async def test_submitting_needs_read_committed(db: Connection) -> None:
    await add_queue(db)
    with pytest.raises(asyncpg.PostgresError, match="READ COMMITTED"):
        async with db.transaction(isolation="repeatable_read"):
            await submit(db)
