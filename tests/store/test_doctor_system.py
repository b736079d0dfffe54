"""`jq-ctl doctor` finds what is wrong around the jobs: cluster, schema, loops, workers."""

import re

import pytest

from jobqueue.domain.checkup import Verdict
from jobqueue.store.events import add_cursor, take_cursor
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.upkeep import roll_stats, seal_partitions
from jobqueue.store.workers import beat_worker, register_worker
from jobqueue.submission import checks
from tests.store.conftest import Connect
from tests.support.checkup import checked
from tests.support.store import expire_leases
from tests.support.workers import facts

ALTER = "ALTER TABLE jobqueue."
CLUSTER: list[tuple[str, str, Verdict, str]] = [
    ("UPDATE jobqueue.alembic_version SET version_num = 'x9'", "schema", Verdict.WARN, "newer"),
    ("DELETE FROM jobqueue.alembic_version", "schema", Verdict.FAIL, "at None"),
    ("DROP INDEX jobqueue.ready_claim", "indexes", Verdict.FAIL, "ready_claim is missing"),
    (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid::regclass::text ~ 'ready_claim'",
        "indexes",
        Verdict.FAIL,
        "ready_claim is not valid",
    ),
    (f"{ALTER}leases SET (autovacuum_enabled = off)", "autovacuum", Verdict.WARN, "leases"),
    (f"{ALTER}job_events DISABLE TRIGGER ALL", "partitions", Verdict.FAIL, "can be changed"),
    (
        "DROP TRIGGER job_events_kept_no_truncate ON jobqueue.job_events_kept",
        "partitions",
        Verdict.FAIL,
        "job_events_kept can be changed",
    ),
    (
        "UPDATE jobqueue.event_cursors SET system_identifier = 0",
        "cursors",
        Verdict.WARN,
        "another cluster",
    ),
    (
        "INSERT INTO jobqueue.queue_depths SELECT queue_id, 'PENDING', 1, 1 FROM jobqueue.queues",
        "figures",
        Verdict.FAIL,
        "q PENDING",
    ),
    (
        "UPDATE jobqueue.scheduled SET due_at = now() - interval '5 min'",
        "overdue",
        Verdict.FAIL,
        "jobs that came due wait, the oldest for 5 min",
    ),
    (
        "UPDATE jobqueue.ready SET expires_at = now() - interval '5 min'",
        "overdue",
        Verdict.FAIL,
        "jobs whose TTL ended wait, the oldest for 5 min",
    ),
    (
        "UPDATE jobqueue.scheduled SET expires_at = now() - interval '3 min'",
        "overdue",
        Verdict.FAIL,
        "jobs whose TTL ended wait, the oldest for 3 min",
    ),
    (
        f"{ALTER}job_events DROP CONSTRAINT job_events_legal_move",
        "partitions",
        Verdict.FAIL,
        "job_events can be changed, or takes illegal moves",
    ),
    (f"{ALTER}queue_minutes SET UNLOGGED", "settings", Verdict.FAIL, "queue_minutes is unlogged"),
    *(
        (
            f"SELECT setval('jobqueue.{name}', 1, false)",
            "numbers",
            Verdict.FAIL,
            f"{name} stands at 0, and ",
        )
        for name in (
            "lease_token_seq",
            "event_id_seq",
            "jobs_id_seq",
            "queues_queue_id_seq",
        )
    ),
]


@pytest.mark.parametrize(
    ("plant", "check", "verdict", "told"), CLUSTER, ids=[fault[3] for fault in CLUSTER]
)
async def test_a_fault_around_the_jobs_is_found(
    lived: Connection, pool: Pool, plant: str, check: str, verdict: Verdict, told: str
) -> None:
    await lived.execute(plant)
    found = (await checked(pool, check))[check]
    assert (found.verdict, bool(found.advice)) == (verdict, True)
    assert told in found.found


async def test_a_consumer_that_no_server_serves_comes_with_the_way_to_end_it(
    lived: Connection, pool: Pool
) -> None:
    await add_cursor(lived, "kafka")
    await lived.execute("UPDATE jobqueue.event_cursors SET system_identifier = 0")
    assert "disconnect" not in (await checked(pool, "cursors"))["cursors"].advice
    assert await take_cursor(lived, "kafka", "a server", 0.0) is not None
    await lived.execute("UPDATE jobqueue.event_cursors SET system_identifier = 0")
    assert "jq-ctl events disconnect" in (await checked(pool, "cursors"))["cursors"].advice


async def test_leases_that_nobody_took_back_are_found(lived: Connection, pool: Pool) -> None:
    job_id = await lived.fetchval(
        "SELECT job_id FROM jobqueue.leases JOIN jobqueue.jobs USING (id) LIMIT 1"
    )
    await expire_leases(lived)
    assert (await checked(pool, "overdue"))["overdue"].verdict is Verdict.OK
    await lived.execute("UPDATE jobqueue.leases SET expires_at = now() - interval '5 min'")
    found = (await checked(pool, "overdue"))["overdue"]
    assert found.verdict is Verdict.FAIL
    assert str(job_id) in found.examples


@pytest.mark.parametrize(
    ("weeks", "verdict"), [(3, Verdict.OK), (1, Verdict.WARN), (0, Verdict.FAIL)]
)
async def test_partitions_must_reach_a_week_ahead(
    lived: Connection, pool: Pool, weeks: int, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever weekday it is: what is left is between ``weeks`` and ``weeks + 1`` weeks."""
    monkeypatch.setattr(checks, "WARN_AHEAD_S", 2 * 7 * 86_400.0)
    monkeypatch.setattr(checks, "FAIL_AHEAD_S", 7 * 86_400.0 if weeks == 0 else 1.0)
    rows = await lived.fetch(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'jobqueue.job_events'::regclass AND c.relname > 'job_events_' || "
        "to_char(now() AT TIME ZONE 'UTC' + make_interval(weeks => $1), 'IYYY\"w\"IW')",
        weeks,
    )
    for row in rows:
        await lived.execute(f"DROP TABLE jobqueue.{row['relname']}")
    assert (await checked(pool, "partitions"))["partitions"].verdict is verdict


async def test_a_missing_week_ends_what_is_ahead(lived: Connection, pool: Pool) -> None:
    name = await lived.fetchval(
        "SELECT 'job_events_' || to_char(now() AT TIME ZONE 'UTC', 'IYYY\"w\"IW')"
    )
    await lived.execute(f"ALTER TABLE jobqueue.job_events DETACH PARTITION jobqueue.{name}")
    found = (await checked(pool, "partitions"))["partitions"]
    assert (found.verdict, found.found) == (Verdict.FAIL, "partitions reach 0.0 days ahead")


async def test_what_hourly_turns_left_undone_is_found(lived: Connection, pool: Pool) -> None:
    for week in ("2020-01-06", "2020-01-13"):
        await lived.execute("SELECT jobqueue.create_event_partition($1::text::date)", week)
    await roll_stats(lived)

    async def told(retention_days: float) -> tuple[Verdict, str]:
        found = await checked(pool, "partitions", event_retention_s=retention_days * 86_400.0)
        return found["partitions"].verdict, found["partitions"].found

    assert (await told(3_650.0))[0] is Verdict.OK, "an index would find nothing"
    await lived.execute(
        "INSERT INTO jobqueue.job_events (job, queue_id, seq, to_status, reason, attempt, at) "
        "VALUES (1, 1, 9, 'PENDING', 'SUBMITTED', 0, '2020-01-07'), "
        "(1, 1, 9, 'PENDING', 'SUBMITTED', 0, '2020-01-14')"
    )
    await lived.execute("ANALYZE jobqueue.job_events_2020w02")
    assert await told(3_650.0) == (Verdict.WARN, "job_events_2020w02 has no index by job")
    assert await seal_partitions(lived) > 0
    assert (await told(3_650.0))[0] is Verdict.OK
    assert await told(30.0) == (
        Verdict.WARN,
        "job_events_2020w02 is older than the retention of events",
    )


async def test_an_open_transaction_is_named_without_what_it_does(
    lived: Connection, pool: Pool, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "OLD_TRANSACTION_S", 0.0)
    holder = await another()
    await holder.execute("SET application_name = 'a report'")
    async with holder.transaction():
        await holder.execute("SELECT 'secret payload'")
        found = (await checked(pool, "transactions"))["transactions"]
    assert found.verdict is Verdict.WARN
    assert f"pid {holder.get_server_pid()} (a report, role " in found.found
    assert "idle in transaction" in found.found
    assert "secret" not in str(found)


async def test_a_prepared_transaction_is_found(
    lived: Connection, pool: Pool, another: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "OLD_TRANSACTION_S", 0.0)
    if await lived.fetchval("SELECT current_setting('max_prepared_transactions')") == "0":
        pytest.skip("this PostgreSQL takes no prepared transactions")
    other = await another()
    await other.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'left behind'")
    try:
        found = (await checked(pool, "prepared"))["prepared"]
    finally:
        await other.execute("ROLLBACK PREPARED 'left behind'")
    assert found.verdict is Verdict.WARN
    assert "'left behind'" in found.found


@pytest.mark.parametrize(
    ("off_s", "verdict", "told"),
    [
        (0.0, Verdict.OK, "1 workers"),
        (90.0, Verdict.WARN, r"^w-1 is (8\d|90)\.\d{3} s ahead"),
        (-1e9, Verdict.WARN, "w-1"),
    ],
)
async def test_a_worker_whose_clock_is_off_is_found(
    lived: Connection, pool: Pool, off_s: float, verdict: Verdict, told: str
) -> None:
    number = await register_worker(lived, facts())
    assert (await checked(pool, "clocks"))["clocks"].found == "no worker told its time"
    now = await lived.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
    await beat_worker(lived, number, clock_s=now + off_s)
    found = (await checked(pool, "clocks"))["clocks"]
    assert found.verdict is verdict
    assert re.search(told, found.found)


async def test_a_consumer_that_stands_still_is_found(
    lived: Connection, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "BEHIND_S", 0.0)
    found = (await checked(pool, "cursors"))["cursors"]
    assert found.verdict is Verdict.WARN
    assert found.found.startswith("stats is ")
    await roll_stats(lived)
    assert (await checked(pool, "cursors"))["cursors"].verdict is Verdict.OK
