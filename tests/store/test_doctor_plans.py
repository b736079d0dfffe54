"""A check-up of a page must cost a page, however many jobs there are."""

import json
import re
from typing import Any

from jobqueue.store.pool import Connection
from jobqueue.store.statements import statement
from tests.support.store import add_queue

_SMALL = 1_000
"""So many rows, of a table of queues for instance, are no matter."""

_LOAD = """
    WITH j AS (
        INSERT INTO jobqueue.jobs (job_id, created_at, queue_id, max_retries, priority, payload,
            idempotency_key)
        SELECT gen_random_uuid(), clock_timestamp(), queue_id, 3, 0, repeat('x', 100)::bytea,
            n::text
        FROM generate_series(1, 60000) n, jobqueue.queues RETURNING id, job_id, queue_id
    ), f AS (
        INSERT INTO jobqueue.finished (id, finished_at, queue_id, seq, attempt, reason, retries,
            dead)
        SELECT id, clock_timestamp(), queue_id, 1, 0, 'CANCELLED', 0, true FROM j
    ), k AS (
        INSERT INTO jobqueue.idempotency_keys (tenant, key, job_id, content_hash)
        SELECT '', id::text, job_id, '' FROM j
    )
    INSERT INTO jobqueue.job_events (job, queue_id, seq, to_status, reason, attempt)
    SELECT id, queue_id, 1, 'PENDING', 'SUBMITTED', 0 FROM j ORDER BY id
"""
_VALUES = {
    "find_misplaced_jobs": ("1000", "1500", "5"),
    "find_broken_records": ("1000", "1500", "ARRAY['>PENDING']", "5"),
    "find_orphan_keys": ("''", "''", "500", "5"),
    "find_keyless_jobs": ("1000", "1500", "5"),
    "find_overdue_jobs": ("60", "5"),
    "find_job_page": ("1000", "500"),
    "find_newest_jobs": ("500",),
}


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *[node for child in plan.get("Plans", []) for node in nodes(child)]]


def filled(name: str) -> str:
    """Return a statement with values in place of its parameters."""
    text = re.sub(r"--.*", "", statement(name)).rstrip().rstrip(";")
    for number, value in enumerate(_VALUES[name], start=1):
        text = text.replace(f"${number}::", f"{value}::")
    return text


async def test_no_page_of_a_check_up_reads_a_big_table_whole(bare: Connection) -> None:
    await add_queue(bare)
    await bare.execute(_LOAD)
    await bare.execute("ANALYZE")
    for name in _VALUES:
        plan = json.loads(await bare.fetchval(f"EXPLAIN (FORMAT JSON) {filled(name)}"))[0]["Plan"]
        whole = {n["Relation Name"] for n in nodes(plan) if n["Node Type"] == "Seq Scan"}
        rows = {t: await bare.fetchval(f"SELECT count(*) FROM jobqueue.{t}") for t in whole}
        assert {table for table, count in rows.items() if count > _SMALL} == set(), name
