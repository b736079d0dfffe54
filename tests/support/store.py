"""What store tests share: jobs and queues, moves, and reading the record."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from jobqueue.domain.columns import columns_of
from jobqueue.domain.job import JobSpec
from jobqueue.domain.lease import Counters, LeasedJob
from jobqueue.domain.outcome import Charge, Completed, Failed, Outcome, Settlement, decide
from jobqueue.domain.queue import PRIORITIES, QueuePolicy
from jobqueue.store.jobs import submit_jobs
from jobqueue.store.leases import Probe, claim_jobs, settle_leases
from jobqueue.store.pool import Connection, Db
from jobqueue.store.queues import create_queue, get_queue_id
from jobqueue.store.queues import delete_queue as delete_queue_by_id

HORIZON_S = 1e8
WORKER = 1
FAILURE = Failed("boom")
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))"
"""How many wait for this backend."""


async def add_queue(db: Db, name: str = "q", **policy: object) -> None:
    """Make a queue."""
    made = await create_queue(db, name, QueuePolicy(**policy))  # type: ignore[arg-type]
    assert made is not None


class Deletion(NamedTuple):
    """What became of a deletion: deleted, not_empty or not_found; and which queue it was."""

    state: str
    queue: int | None


async def delete_queue(db: Db, name: str, *, force: bool) -> Deletion:
    """Delete the queue that has a name."""
    queue = await get_queue_id(db, name)
    if queue is None:
        return Deletion("not_found", None)
    deleted = await delete_queue_by_id(db, queue, force=force)
    return Deletion("deleted" if deleted else "not_empty", queue)


def spec(**fields: Any) -> JobSpec:
    """Return a job of type ``t`` for queue ``q``, or as ``fields`` say."""
    return JobSpec(**({"queue": "q", "type": "t"} | fields))


class Stored(NamedTuple):
    """What became of a submission: NEW, or as the statement says."""

    job_id: UUID
    outcome: str


async def store_items(
    db: Db,
    items: Sequence[tuple[UUID, JobSpec]],
    *,
    atomic: bool = False,
    horizon_s: float = HORIZON_S,
) -> list[Stored]:
    """Submit jobs under given ids and return what became of each."""
    ids = [job_id for job_id, _ in items]
    columns = columns_of([one for _, one in items])
    others = await submit_jobs(db, ids, columns, atomic=atomic, horizon_s=horizon_s)
    told = [others.get(i) for i in range(len(ids))]
    return [
        Stored(other.job_id, other.outcome) if other else Stored(job_id, "NEW")
        for job_id, other in zip(ids, told, strict=True)
    ]


async def store(db: Db, specs: Iterable[JobSpec], *, atomic: bool = False) -> list[Stored]:
    """Submit and return what became of each."""
    return await store_items(db, [(uuid4(), one) for one in specs], atomic=atomic)


async def submit(db: Db, n: int = 1, **fields: Any) -> list[UUID]:
    """Submit ``n`` equal jobs; return their ids."""
    return [s.job_id for s in await store(db, [spec(**fields) for _ in range(n)], atomic=True)]


def probes(
    queues: Sequence[str] = ("q",),
    priorities: Iterable[int] = PRIORITIES,
    *,
    quota: int = 1_000,
    untyped: bool = True,
) -> list[Probe]:
    """Visit the priorities in order, and in each the queues."""
    return [Probe(q, p, quota, untyped) for p in priorities for q in queues]


async def claim(
    db: Db,
    n: int = 1,
    *,
    where: Sequence[Probe] | None = None,
    worker: int = WORKER,
    types: Sequence[str] = ("t",),
    running: bool = True,
    limited: Sequence[str] = (),
    lease_s: float = 60.0,
) -> list[LeasedJob]:
    """Claim at most ``n`` jobs, by default of queue ``q``."""
    return await claim_jobs(
        db,
        worker=worker,
        probes=probes() if where is None else where,
        n=n,
        types=types,
        lease_s=lease_s,
        running=running,
        limited=limited,
    )


async def claim_one(db: Db, *, running: bool = True, worker: int = WORKER) -> LeasedJob:
    """Claim the one job that is due."""
    (job,) = await claim(db, 1, running=running, worker=worker)
    return job


def settlement(job: LeasedJob, outcome: Outcome, **counters: int) -> Settlement:
    """Decide as a worker does, without jitter; ``counters`` replace those of the job."""
    counted = Counters(**(asdict(job.counters) | counters))
    charge = Charge(job.lease, job.max_retries, counted, job.policy)
    return decide(charge, outcome, crash_limit=3, jitter=0.0)


async def settle(
    db: Db, job: LeasedJob, outcome: Outcome | None = None, *, worker: int | None = WORKER
) -> str:
    """End a lease, by default as done; return what the statement answers."""
    ended = settlement(job, outcome or Completed(b"ok"))
    (answer,) = await settle_leases(db, worker=worker, settlements=[ended])
    assert answer.lease == job.lease
    return answer.state


async def forget_workers(db: Db) -> None:
    """Let no worker be known any more, nor any number: as in a database that took over too late."""
    await db.execute("WITH w AS (DELETE FROM jobqueue.workers) DELETE FROM jobqueue.worker_names")


async def cut(db: Db, application: str) -> int:
    """End the connections of one name; return how many there were."""
    return int(
        await db.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = $1 AND datname = current_database()",
            application,
        )
    )


async def waits(db: Db, application: str) -> bool:
    """Tell whether a connection of this name waits for a lock."""
    return bool(
        await db.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 "
            "AND datname = current_database() AND wait_event_type = 'Lock'",
            application,
        )
    )


async def path(db: Db, job_id: UUID) -> list[str]:
    """Return the transitions of a job as ``STATUS:REASON``, in order."""
    rows = await db.fetch(
        "SELECT to_status, reason FROM jobqueue.job_event_log WHERE job_id = $1 ORDER BY seq",
        job_id,
    )
    return [f"{r['to_status']}:{r['reason']}" for r in rows]


async def last_event(db: Db, job_id: UUID) -> dict[str, object]:
    """Return the newest event of a job with all its fields."""
    row = await db.fetchrow(
        "SELECT from_status, to_status, reason, attempt, token, worker_id, detail, duration_ms, at "
        "FROM jobqueue.job_event_log WHERE job_id = $1 ORDER BY seq DESC LIMIT 1",
        job_id,
    )
    assert row is not None
    return dict(row)


async def row_of(db: Db, table: str, job_id: UUID) -> dict[str, object] | None:
    """Return the row of a job in a state table."""
    row = await db.fetchrow(
        f"SELECT t.* FROM jobqueue.{table} t JOIN jobqueue.jobs j USING (id) WHERE j.job_id = $1",
        job_id,
    )
    return dict(row) if row else None


async def status(db: Db, job_id: UUID) -> str | None:
    """Return the status of a job; None when there is no such job."""
    found = await db.fetchval("SELECT status FROM jobqueue.job_status WHERE job_id = $1", job_id)
    return None if found is None else str(found)


async def make_due(db: Db) -> None:
    """Let every waiting job be due now."""
    await db.execute("UPDATE jobqueue.scheduled SET due_at = clock_timestamp() - interval '1 s'")


async def set_clock_back(db: Db, by: str = "10 min") -> None:
    """Let the database's clock have been ahead until now, for its cursors."""
    await db.execute(
        "UPDATE jobqueue.event_cursors "
        f"SET since = since + interval '{by}', updated_at = updated_at + interval '{by}'"
    )


async def restore_dump(db: Connection, ahead: int = 1_000_000) -> None:
    """Let all be as after a dump was restored in a new cluster: transactions are yet to come.

    They are ``ahead`` transactions away.
    """
    await db.execute("ALTER TABLE jobqueue.job_events DISABLE TRIGGER job_events_immutable")
    for table in ("job_events", "removed_jobs"):
        await db.execute(
            f"UPDATE jobqueue.{table} SET xid = (xid::text::bigint + {ahead})::text::xid8"
        )
    await db.execute("ALTER TABLE jobqueue.job_events ENABLE ALWAYS TRIGGER job_events_immutable")
    await db.execute(
        """
        UPDATE jobqueue.event_cursors
        SET system_identifier = 0, expires_at = now(), snapshot = format(
            '%s:%s:%s', pg_snapshot_xmin(snapshot)::text::bigint + $1,
            pg_snapshot_xmax(snapshot)::text::bigint + $1,
            (SELECT string_agg((x::text::bigint + $1)::text, ',' ORDER BY x)
             FROM pg_snapshot_xip(snapshot) x))::pg_snapshot
        """,
        ahead,
    )


async def pass_transactions(db: Connection) -> None:
    """Let the transactions of all events come to pass."""
    await db.execute(
        """
        DO $$
        BEGIN
            WHILE EXISTS (SELECT FROM jobqueue.job_events
                          WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())) LOOP
                FOR i IN 1..1000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP;
            END LOOP;
        END $$
        """
    )


async def end_ttl(db: Db) -> None:
    """Let the TTL of every job that still has one be over."""
    for table, column in (
        ("ready", "expires_at"),
        ("scheduled", "expires_at"),
        ("leases", "ttl_expires_at"),
    ):
        await db.execute(
            f"UPDATE jobqueue.{table} SET {column} = clock_timestamp() - interval '1 s' "
            f"WHERE {column} IS NOT NULL"
        )


async def expire_leases(db: Db) -> None:
    """Let every lease run out now."""
    await db.execute("UPDATE jobqueue.leases SET expires_at = clock_timestamp() - interval '1 s'")


async def let_moves_wait(db: Db) -> None:
    """Let cancels, retries and deletions wait a minute, not 2 s, for the row that a test holds."""
    for move in ("cancel_job(uuid, bool)", "retry_job(uuid)", "delete_job(uuid)"):
        await db.execute(f"ALTER FUNCTION jobqueue.{move} SET lock_timeout = '60s'")


async def waits_for_lock(db: Db, other: Connection) -> bool:
    """Tell whether ``other`` waits for a lock that somebody holds."""
    return bool(await db.fetchval("SELECT pg_blocking_pids($1) <> '{}'", other.get_server_pid()))
