"""The database beside the model: its clock, a clean start for each example, and what it shows.

The clock of this database is ours. Statements name ``now()`` and ``clock_timestamp()`` without a
schema, and here these names are found in a schema of our own first; so a day passes in no time, and
every stored instant is one that the model can name.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from jobqueue.store.pool import Connection, connect
from jobqueue.store.workers import register_worker
from tests.model.facts import Event
from tests.support.postgres import database_of
from tests.support.waiting import HANG_S
from tests.support.workers import facts

T = TypeVar("T")

WORKERS = ("able", "narrow")
"""The one can run every job, the other not."""

LONGEST_S = 10 * 86_400.0
"""An example that lasts longer would leave the partitions of events."""

_CLOCK = """
    CREATE SCHEMA model;
    CREATE FUNCTION model.now() RETURNS timestamptz LANGUAGE sql STABLE AS
        'SELECT current_setting(''model.now'')::timestamptz';
    CREATE FUNCTION model.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        'SELECT current_setting(''model.now'')::timestamptz';
    DO $$
    DECLARE d record;
    BEGIN
        FOR d IN
            SELECT c.relname, a.attname FROM pg_attrdef f
            JOIN pg_class c ON c.oid = f.adrelid AND c.relnamespace = 'jobqueue'::regnamespace
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = f.adnum
            WHERE pg_get_expr(f.adbin, f.adrelid) = 'clock_timestamp()'
        LOOP
            EXECUTE format('ALTER TABLE jobqueue.%I ALTER COLUMN %I
                            SET DEFAULT model.clock_timestamp()', d.relname, d.attname);
        END LOOP;
    END $$;
    ALTER DATABASE "{name}" SET search_path = model, pg_catalog;
    ALTER DATABASE "{name}" SET model.now = '{start}';
"""
_CLEAN = """
    DELETE FROM jobqueue.ready; DELETE FROM jobqueue.scheduled; DELETE FROM jobqueue.leases;
    DELETE FROM jobqueue.finished; DELETE FROM jobqueue.jobs; DELETE FROM jobqueue.queues;
    DELETE FROM jobqueue.idempotency_keys; DELETE FROM jobqueue.removed_jobs;
    DELETE FROM jobqueue.queue_depths; DELETE FROM jobqueue.queue_minutes;
    UPDATE jobqueue.event_cursors
    SET snapshot = pg_current_snapshot(), since = clock_timestamp() - interval '1 day',
        updated_at = clock_timestamp();
"""
_JOBS = """
    SELECT v.job_id, v.job, v.status, v.reason, v.seq, v.attempt, v.retry_count, v.worker_id,
           v.lease_token, v.not_before, v.started_at, v.finished_at, v.cancel_requested,
           h.crashes, h.handbacks, h.unhandled, h.ready_at, h.ttl_end, h.lease_end
    FROM jobqueue.job_status v LEFT JOIN (
        SELECT id, crashes, handbacks, unhandled, ready_at, expires_at AS ttl_end,
               NULL::timestamptz AS lease_end FROM jobqueue.ready
        UNION ALL
        SELECT id, crashes, handbacks, unhandled, NULL, expires_at, NULL FROM jobqueue.scheduled
        UNION ALL
        SELECT id, crashes, handbacks, unhandled, ready_at, ttl_expires_at, expires_at
        FROM jobqueue.leases
    ) h ON h.id = v.job
    ORDER BY v.job
"""
_EVENTS = """
    SELECT job, seq, coalesce(from_status::text, '') AS was, to_status::text AS became,
           reason::text AS reason, attempt, worker_id, token, at, xid::text AS xid
    FROM jobqueue.job_events
    WHERE xid > $1::text::xid8 AND at >= $2::timestamptz ORDER BY eid
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A job as the database has it; times are seconds since the example began."""

    status: str
    reason: str
    seq: int
    attempt: int
    retries: int
    worker: str | None
    token: int | None
    not_before: float | None
    started_at: float | None
    finished_at: float | None
    cancel: bool
    crashes: int | None = None
    handbacks: int | None = None
    unhandled: int | None = None
    ready_at: float | None = None
    ttl_end: float | None = None
    lease_end: float | None = None


class Database:
    """One connection to a migrated database, driven from plain functions."""

    def __init__(self, dsn: str) -> None:
        self._loop = asyncio.new_event_loop()
        self.start = self.run(_prepare(dsn))
        self.db: Connection = self.run(connect(dsn, connect_timeout_s=HANG_S))
        self.workers = {name: self.run(register_worker(self.db, facts(name))) for name in WORKERS}
        self.worker_names = {number: name for name, number in self.workers.items()}
        self._numbers: dict[int, UUID] = {}
        self._xid = "0"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one piece of work to its end."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """Close the connection."""
        self.run(self.db.close())
        self._loop.close()

    def execute(self, sql: str) -> None:
        """Do something that is no rule of the model."""
        self.run(self.db.execute(sql))

    def definition(self, function: str) -> str:
        """Return the statement that makes a function of the schema."""
        query = "SELECT pg_get_functiondef(('jobqueue.' || $1)::regproc)"
        return str(self.run(self.db.fetchval(query, function)))

    def clean(self) -> None:
        """Begin anew at second 0; of the past only events are left, which nothing can remove."""
        self.set_clock(0.0)
        self.run(self.db.execute(_CLEAN))
        self._numbers.clear()
        self._xid = self.run(self.db.fetchval("SELECT pg_current_xact_id()::text"))

    def set_clock(self, now: float) -> None:
        """Let it be ``now`` seconds after the beginning."""
        text = self.instant(now).isoformat()
        self.run(self.db.fetchval("SELECT set_config('model.now', $1, false)", text))

    def instant(self, at: float) -> datetime:
        """Return a second of the example as a time of the database."""
        return self.start + timedelta(seconds=at)

    def jobs(self) -> dict[UUID, Seen]:
        """Return every job, oldest first."""
        found = {}
        for row in self.run(self.db.fetch(_JOBS)):
            job_id, number, *fields = (self._second(value) for value in row.values())
            self._numbers[number] = job_id
            found[job_id] = Seen(*fields)
        return found

    def events(self) -> list[Event]:
        """Return the transitions since the last call; call ``jobs`` before."""
        rows = self.run(self.db.fetch(_EVENTS, self._xid, self.start - timedelta(days=1)))
        self._xid = max((r["xid"] for r in rows), key=int, default=self._xid)
        return [
            Event(
                self._numbers[r["job"]],
                r["seq"],
                r["was"],
                r["became"],
                r["reason"],
                r["attempt"],
                r["worker_id"],
                r["token"],
                self._second(r["at"]),
            )
            for r in rows
        ]

    def _second(self, value: Any) -> Any:
        return (value - self.start).total_seconds() if isinstance(value, datetime) else value


async def _prepare(dsn: str) -> datetime:
    """Give the database our clock; return where it starts."""
    connection = await connect(dsn, connect_timeout_s=HANG_S)
    start: datetime = await connection.fetchval("SELECT date_trunc('second', now())")
    await connection.execute(_CLOCK.format(name=database_of(dsn), start=start.isoformat()))
    await connection.close()
    return start
