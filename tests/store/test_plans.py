"""Plans that must not turn with the size of a table: a prepared claim once took 13 seconds.

The whole path is the product's own: the statement is prepared and run on empty, vacuumed tables
until PostgreSQL would settle for a generic plan; then the jobs come, and nobody analyzes.
"""

import json
from typing import Any

import pytest

from jobqueue.store.pool import Connection, connect
from jobqueue.store.statements import statement
from tests.support.postgres import Cluster
from tests.support.store import add_queue, claim

LOADED = 200_000
_LOAD = """
    WITH j AS (
        INSERT INTO jobqueue.jobs (job_id, created_at, queue_id, max_retries, priority, payload)
        SELECT gen_random_uuid(), clock_timestamp(), queue_id, 3, 0, ''
        FROM generate_series(1, $1::int / 10), jobqueue.queues
    )
    INSERT INTO jobqueue.ready (id, ready_at, queue_id, seq, attempt, reason, priority, retries,
        crashes, handbacks, unhandled)
    SELECT n, clock_timestamp(), queue_id, 1, 0, 'SUBMITTED', 0, 0, 0, 0, 0
    FROM generate_series(1, $1) n, jobqueue.queues
"""


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return this node and all below it."""
    return [plan, *[node for child in plan.get("Plans", []) for node in nodes(child)]]


def scans_of(plan: dict[str, Any], table: str) -> set[str]:
    return {
        n["Node Type"]
        for n in nodes(plan)
        if n.get("Relation Name") == table and "Scan" in n["Node Type"]
    }


CLAIM = (
    "ARRAY['q'], ARRAY[0]::int2[], ARRAY[100], ARRAY[true], 100, 1, 60, true, false, ARRAY['t'], "
    "ARRAY[0]"
)


async def plan_of_a_prepared_claim(db: Connection) -> dict[str, Any]:
    for _ in range(8):
        await db.execute(f"EXECUTE claim ({CLAIM})")
    await db.execute(_LOAD, LOADED)
    answer = await db.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE claim ({CLAIM})")
    found: dict[str, Any] = json.loads(answer)[0]["Plan"]
    return found


async def test_a_claim_prepared_on_empty_tables_still_uses_its_index(bare: Connection) -> None:
    await add_queue(bare)
    for table in ("ready", "jobs"):
        await bare.execute(f"ALTER TABLE jobqueue.{table} SET (autovacuum_enabled = false)")
    await bare.execute("VACUUM ANALYZE jobqueue.ready, jobqueue.jobs, jobqueue.leases")
    await bare.execute(f"PREPARE claim AS {statement('claim_jobs')}")
    assert await claim(bare, 1) == []
    plan = await plan_of_a_prepared_claim(bare)
    assert scans_of(plan, "ready") <= {"Index Scan", "Tid Scan"}
    used = {n.get("Index Name") for n in nodes(plan)}
    assert {"ready_claim", "jobs_pkey"} <= used


_LEASES = """
    INSERT INTO jobqueue.leases (id, token, ready_at, claimed_at, started_at, expires_at, queue_id,
        seq, attempt, worker_id, priority, retries, crashes, handbacks, unhandled, running)
    SELECT n, n, now(), now(), now(), now(), queue_id, 3, 1, 1, 0, 0, 0, 0, 0, true
    FROM generate_series(1, $1) n, jobqueue.queues
"""
_PAIRS = "ARRAY[1, 2]::bigint[], ARRAY[1, 2]::bigint[]"
KEYED = {
    "claim_jobs": CLAIM,
    "start_leases": f"{_PAIRS}, 1, 60",
    "complete_leases": f"{_PAIRS}, ARRAY[NULL, NULL]::bytea[], ARRAY[false, false], 1",
    "settle_leases": (
        f"{_PAIRS}, ARRAY['WAIT', 'READY'], ARRAY['RELEASED', 'RELEASED'], "
        "ARRAY[NULL, NULL]::text[], ARRAY[1, 1], ARRAY[0, 0], ARRAY[0, 0], ARRAY[0, 0], "
        "ARRAY[0, 0], ARRAY[NULL, NULL]::text[], 1"
    ),
    "find_ended_leases": _PAIRS,
}


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("looked_into", [0, 3], ids=["empty", "three-rows"])
async def test_a_plan_that_is_kept_looks_up_by_key_whatever_was_there_when_it_was_made(
    pg: Cluster, database: str, bare: Connection, name: str, looked_into: int
) -> None:
    await add_queue(bare)
    await bare.execute(_LEASES, looked_into)
    await bare.execute(_LOAD, looked_into * 10)
    await bare.execute("VACUUM ANALYZE")
    keyed = await connect(database, keyed=True)
    try:
        await keyed.execute(f"PREPARE kept AS {statement(name)}")
        answer = await keyed.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE kept ({KEYED[name]})")
    finally:
        await keyed.close()
    read = [n for n in nodes(json.loads(answer)[0]["Plan"]) if n["Node Type"].endswith("Scan")]
    tables = [n for n in read if "Relation Name" in n]
    assert tables
    assert {n["Node Type"] for n in tables} <= {"Index Scan", "Index Only Scan", "Tid Scan"}
    whole = [n for n in tables if "Index Name" in n and "Index Cond" not in n]
    assert not whole


_SCHEDULED = """
    INSERT INTO jobqueue.scheduled (id, ready_at, due_at, queue_id, seq, attempt, reason, priority,
        retries, crashes, handbacks, unhandled, failed)
    SELECT n, now(), now() + interval '1 day', queue_id, 1, 0, 'SUBMITTED', 0, 0, 0, 0, 0, false
    FROM generate_series(1, 20000) n, jobqueue.queues
"""


async def test_a_queue_that_was_deleted_long_ago_costs_its_sweep_nothing(bare: Connection) -> None:
    await add_queue(bare)
    await bare.execute(_SCHEDULED)
    await bare.execute(_LOAD, 20_000)
    await bare.execute("ANALYZE jobqueue.ready, jobqueue.scheduled")
    await add_queue(bare, "gone")
    sweep = statement("cancel_queue_jobs").replace("$1::int", "500").rstrip().removesuffix(";")

    async def looked_at() -> dict[str, int]:
        """Return how often each table was read through."""
        answer = await bare.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sweep}")
        found = nodes(json.loads(answer)[0]["Plan"])
        return {
            table: sum(
                n["Actual Loops"]
                for n in found
                if n.get("Relation Name") == table and "Scan" in n["Node Type"]
            )
            for table in ("ready", "scheduled")
        }

    await bare.execute("UPDATE jobqueue.queues SET deleted_at = now() WHERE name = 'gone'")
    assert min((await looked_at()).values()) > 0
    await bare.execute(
        "UPDATE jobqueue.queues SET deleted_at = now() - interval '1 hour' WHERE name = 'gone'"
    )
    assert await looked_at() == {"ready": 0, "scheduled": 0}
