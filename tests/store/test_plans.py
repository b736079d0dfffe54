"""Plans that must not turn with the size of a table: a claim of a kept plan once took 13 seconds.

The whole path is the product's own: its functions run on tables that are empty or hold three rows,
vacuumed and analyzed, and their plans are kept. Then the jobs come, and nobody analyzes.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

import asyncpg
import pytest

from jobqueue.domain.job import JobFilter
from jobqueue.domain.lease import Counters, Lease
from jobqueue.domain.outcome import Fate, Settlement
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.store import jobs
from jobqueue.store.events import (
    Step,
    add_cursor,
    count_backlog,
    find_first_event,
    list_events_after,
    move_cursor,
    open_window,
    start_tail,
    take_cursor,
)
from jobqueue.store.figures import count_ready
from jobqueue.store.leases import Probe, claim_jobs, settle_leases, start_leases
from jobqueue.store.pool import Connection
from jobqueue.store.queues import cancel_queue_jobs
from jobqueue.store.statements import statement
from tests.store.conftest import Connect
from tests.support.store import FAILURE, add_queue, claim_one, settle, submit

Plan: TypeAlias = dict[str, Any]

HOT = ("ready", "jobs", "leases", "queues")
MANY = 100_000
_JOBS = """
    INSERT INTO jobqueue.jobs (job_id, created_at, queue_id, max_retries, priority, payload)
    SELECT gen_random_uuid(), clock_timestamp(), queue_id, 3, 0, ''
    FROM generate_series(1, $1::int), jobqueue.queues
"""
_READY = """
    INSERT INTO jobqueue.ready (id, ready_at, queue_id, seq, attempt, reason, priority, retries,
        crashes, handbacks, unhandled)
    SELECT n, now() - (n <= $2::int)::int * interval '1 hour', queue_id, 1, 0, 'SUBMITTED', 0, 0, 0,
           0, 0
    FROM generate_series($3::int, $1::int) n, jobqueue.queues
"""
_WAITING = """
    INSERT INTO jobqueue.ready (id, ready_at, queue_id, seq, attempt, reason, priority,
        retries, crashes, handbacks, unhandled)
    SELECT id, now(), queue_id, 1, 0, 'SUBMITTED', 5, 0, 0, 0, 0 FROM jobqueue.jobs
"""
_LEASES = """
    INSERT INTO jobqueue.leases (id, token, ready_at, claimed_at, expires_at, queue_id, seq,
        attempt, worker_id, priority, retries, crashes, handbacks, unhandled, running)
    SELECT n, n, now(), now(), now(), queue_id, 2, 0, 7, 0, 0, 0, 0, 0, false
    FROM generate_series($2::int, $1::int) n, jobqueue.queues
"""


def nodes(plan: Plan) -> list[Plan]:
    """Return this node and all below it."""
    return [plan, *[node for child in plan.get("Plans", []) for node in nodes(child)]]


@contextlib.asynccontextmanager
async def told_plans(db: Connection) -> AsyncIterator[list[Plan]]:
    """Collect the nodes of every plan that runs on ``db``, in functions too, and what each read."""
    found: list[Plan] = []

    def hear(_: object, message: asyncpg.PostgresLogMessage) -> None:
        text = message.message or ""
        if "plan:" in text:
            found.extend(nodes(json.loads(text.partition("plan:")[2])["Plan"]))

    await db.execute("""
        LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;
        SET auto_explain.log_nested_statements = on; SET auto_explain.log_format = json;
        SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on;
        SET auto_explain.log_level = notice""")
    db.add_log_listener(hear)
    try:
        yield found
    finally:
        db.remove_log_listener(hear)


async def use_every_statement(db: Connection, ids: Sequence[int]) -> None:
    """Claim, and start and settle leases that are there or not, in every way there is."""
    await take(db)
    leases = [Lease(n, n) for n in ids]
    await start_leases(db, worker=7, leases=leases, lease_s=60.0)
    fates = (Fate.DONE, Fate.WAIT, Fate.READY, Fate.DONE)
    ends = [
        Settlement(lease, fate, Reason.RELEASED, counters=Counters())
        for lease, fate in zip(leases, fates, strict=True)
    ]
    await settle_leases(db, worker=7, settlements=ends)


async def take(db: Connection, within_s: float | None = None) -> None:
    probe = Probe("q", 0, 100, untyped=True, within_s=within_s)
    await claim_jobs(
        db, worker=1, probes=[probe], n=100, types=["t"], lease_s=60.0, running=True
    )  # fmt: skip


OFF = "".join(
    f"SET enable_{way} = off;"
    for way in ("hashjoin", "indexscan", "material", "mergejoin", "nestloop", "sort", "tidscan")
)
"""What an operator may have set for a role or a database."""


@pytest.mark.parametrize("settings", ["SELECT", OFF], ids=["usual", "all-off"])
@pytest.mark.parametrize("first", [0, 3], ids=["no-row", "three-rows"])
async def test_plans_made_for_small_tables_look_up_by_key_in_big_ones(
    bare: Connection, first: int, settings: str
) -> None:
    await add_queue(bare)
    await bare.execute(settings)
    for table in HOT:
        await bare.execute(f"ALTER TABLE jobqueue.{table} SET (autovacuum_enabled = false)")
    await bare.execute(_JOBS, first)
    await bare.execute(_READY, first, 0, 1)
    await bare.execute(_LEASES, first + 1_000_000, 1_000_001)
    await bare.execute("VACUUM ANALYZE")
    await use_every_statement(bare, [1, 2, 3, 4])
    await bare.execute(_JOBS, MANY)
    await bare.execute(_READY, MANY, 0, first + 1)
    await bare.execute(_LEASES, MANY + 2_000_000, 2_000_001)
    async with told_plans(bare) as plans:
        await use_every_statement(bare, [2_000_001, 2_000_002, 2_000_003, 9])
    read = [n for n in plans if n.get("Relation Name") in HOT and n["Node Type"].endswith("Scan")]
    assert {n["Relation Name"] for n in read} == set(HOT)
    assert {n["Node Type"] for n in read} <= {"Index Scan", "Tid Scan"}
    assert [n for n in read if n["Node Type"] == "Index Scan" and "Index Cond" not in n] == []
    assert max(n["Actual Loops"] for n in read if "ANY" in n.get("Index Cond", "")) == 1


async def test_a_bounded_claim_steps_over_nothing_that_a_snapshot_keeps(
    bare: Connection, another: Connect
) -> None:
    await add_queue(bare)
    await bare.execute(_READY, 50_200, 50_000, 1)
    reader = await another()
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("SELECT count(*) FROM jobqueue.ready")
        await bare.execute("DELETE FROM jobqueue.ready WHERE id <= 50000")
        bounded = await pages_read(bare, within_s=600.0)
        assert bounded * 10 < await pages_read(bare, within_s=None)


async def pages_read(db: Connection, within_s: float | None) -> int:
    """Claim 100 jobs; return how many pages finding them took."""
    async with told_plans(db) as plans:
        await take(db, within_s)
    (scan,) = [n for n in plans if n.get("Index Name") == "ready_claim"]
    assert scan["Actual Rows"] == 100
    pages: int = scan["Shared Hit Blocks"] + scan["Shared Read Blocks"]
    return pages


_SCHEDULED = """
    INSERT INTO jobqueue.scheduled (id, ready_at, due_at, queue_id, seq, attempt, reason, priority,
        retries, crashes, handbacks, unhandled, failed)
    SELECT n, now(), now() + interval '1 day', queue_id, 1, 0, 'SUBMITTED', 0, 0, 0, 0, 0, false
    FROM generate_series(1, 20000) n, jobqueue.queues
"""


async def test_a_queue_that_has_none_ready_costs_a_count_nothing_where_another_has_all(
    bare: Connection,
) -> None:
    await add_queue(bare)
    await bare.execute(_JOBS, MANY)
    await bare.execute(_WAITING)
    await bare.execute("VACUUM ANALYZE jobqueue.ready")
    await add_queue(bare, "empty")
    async with told_plans(bare) as plans:
        assert await count_ready(bare, 100) == {"q": 100, "empty": 0}
    read = [n["Actual Rows"] + n.get("Rows Removed by Filter", 0) for n in reads(plans, "ready")]
    assert sum(read) < MANY / 10


def reads(plans: Sequence[Plan], table: str) -> list[Plan]:
    return [n for n in plans if n.get("Relation Name") == table and "Scan" in n["Node Type"]]


async def test_queues_deleted_together_cost_one_scan_of_what_is_scheduled(bare: Connection) -> None:
    await add_queue(bare)
    await bare.execute(_SCHEDULED)
    await bare.execute("ANALYZE jobqueue.scheduled")
    for n in range(5):
        await add_queue(bare, f"gone{n}")
    await bare.execute("UPDATE jobqueue.queues SET deleted_at = now() WHERE name <> 'q'")
    async with told_plans(bare) as plans:
        assert (await cancel_queue_jobs(bare, 500)).count == 0
    assert sum(n["Actual Loops"] for n in reads(plans, "scheduled") if "Seq" in n["Node Type"]) == 1


async def test_a_queue_that_was_deleted_long_ago_costs_its_sweep_nothing(bare: Connection) -> None:
    await add_queue(bare)
    await bare.execute(_SCHEDULED)
    await bare.execute(_READY, 20_000, 0, 1)
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


_EVENTS = """
    INSERT INTO jobqueue.job_events (job, queue_id, seq, to_status, reason, attempt)
    SELECT n, queue_id, 1, 'PENDING', 'SUBMITTED', 0
    FROM generate_series(1, $1::int) n, jobqueue.queues
"""
_KEEP = "INSERT INTO jobqueue.job_events_kept SELECT * FROM jobqueue.job_events"
_LOOKED_AT = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")


async def test_what_a_consumer_has_passed_of_its_window_costs_a_look_at_its_backlog_nothing(
    bare: Connection,
) -> None:
    await add_queue(bare)
    await add_cursor(bare, "kafka")
    lease = await take_cursor(bare, "kafka", "a server", 60.0)
    assert lease is not None
    await bare.execute(_EVENTS, MANY)
    await bare.execute("VACUUM ANALYZE jobqueue.job_events")
    window = await open_window(bare, lease)
    assert window is not None
    assert await move_cursor(bare, lease, window.last - 100)
    async with told_plans(bare) as plans:
        assert (await count_backlog(bare, "kafka")).events == 100
    assert 100 <= events_looked_at(plans) < MANY / 10


async def test_where_events_begin_and_a_range_of_their_ids_cost_no_look_at_all_of_them(
    bare: Connection,
) -> None:
    await add_queue(bare)
    start = await start_tail(bare)
    await bare.execute(_EVENTS, MANY)
    await bare.execute("VACUUM ANALYZE jobqueue.job_events")
    step = Step(start, await start_tail(bare))
    async with told_plans(bare) as plans:
        assert await find_first_event(bare) is not None
        page = await list_events_after(bare, step, after=MANY // 2, limit=100, queue=None)
    assert page.upto == MANY // 2 + 100
    assert 100 <= events_looked_at(plans) < MANY / 5


def events_looked_at(plans: Sequence[Plan]) -> float:
    """Return how many rows of events these nodes looked at, wanted or not."""
    scans = [n for n in plans if n.get("Relation Name", "").startswith("job_events")]
    looked_at = [n[kind] * n["Actual Loops"] for n in scans for kind in n if kind in _LOOKED_AT]
    return float(sum(looked_at))


async def test_why_a_job_failed_is_found_among_many_events_of_others(bare: Connection) -> None:
    await add_queue(bare)
    (failed,) = await submit(bare)
    await settle(bare, await claim_one(bare), FAILURE)
    await bare.execute(_EVENTS.replace("SELECT n,", "SELECT n + 1,"), MANY)
    await bare.execute(_KEEP)
    await bare.execute("VACUUM ANALYZE jobqueue.job_events, jobqueue.job_events_kept")
    async with told_plans(bare) as plans:
        job = await jobs.get_job(bare, failed)
    assert job is not None
    assert job.last_error == "boom"
    assert 1 <= events_looked_at(plans) < MANY / 10


_FINISHED = """
    INSERT INTO jobqueue.finished (id, finished_at, queue_id, seq, attempt, reason, retries, dead)
    SELECT id, now(), queue_id, 4, 1, 'COMPLETED', 0, false FROM jobqueue.jobs
"""


_FAILED = """
    INSERT INTO jobqueue.scheduled (id, ready_at, due_at, queue_id, seq, attempt, reason, priority,
        retries, crashes, handbacks, unhandled, failed)
    SELECT id, now(), now() + interval '1 h', queue_id, 4, 1, 'HANDLER_FAILED', 0, 1, 0, 0, 0, true
    FROM jobqueue.jobs
"""


@pytest.mark.parametrize(
    ("which", "table", "rows"),
    [
        (JobFilter(type="rare"), "finished", _FINISHED),
        (JobFilter(queue="small", statuses=frozenset({JobStatus.DONE})), "finished", _FINISHED),
        (JobFilter(type="rare", statuses=frozenset({JobStatus.PENDING})), "ready", _WAITING),
        (JobFilter(queue="small", statuses=frozenset({JobStatus.PENDING})), "ready", _WAITING),
        (JobFilter(type="rare", statuses=frozenset({JobStatus.FAILED})), "scheduled", _FAILED),
    ],
    ids=["type", "queue", "waiting-type", "waiting-queue", "failed-type"],
)
async def test_a_page_of_rare_jobs_looks_through_a_bounded_number_of_others(
    bare: Connection, monkeypatch: pytest.MonkeyPatch, which: JobFilter, table: str, rows: str
) -> None:
    monkeypatch.setattr(jobs, "LOOKED_THROUGH", 1_000)
    await add_queue(bare)
    await bare.execute(_JOBS, MANY)
    await bare.execute(rows)
    await bare.execute(f"VACUUM ANALYZE jobqueue.jobs, jobqueue.{table}")
    async with told_plans(bare) as plans:
        end = await jobs.find_list_end(bare, which, jobs.NEWEST)
        assert await jobs.list_jobs(bare, which, before=jobs.NEWEST, limit=20, down_to=end) == []
    looked_at = [
        n[kind] * n["Actual Loops"]
        for n in plans
        if n.get("Relation Name") in {table, "jobs"}
        for kind in n
        if kind in _LOOKED_AT
    ]
    assert 2_000 <= sum(looked_at) < MANY / 10
