"""Statements that prove the record: each looks, none changes anything or waits for a lock."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobqueue.domain.state import EVENT_TYPES
from jobqueue.store.pool import Connection, Pool, transaction
from jobqueue.store.statements import statement

_LIMIT = statement("limit_snapshot")
_PAGE = statement("find_job_page")
_NEWEST = statement("find_newest_jobs")
_MISPLACED = statement("find_misplaced_jobs")
_BROKEN = statement("find_broken_records")
_ORPHAN_KEYS = statement("find_orphan_keys")
_KEYLESS = statement("find_keyless_jobs")
_FIGURES = statement("find_wrong_figures")
_OVERDUE = statement("find_overdue_jobs")
_STALE_NUMBERS = statement("find_stale_numbers")
_PARTITIONS = statement("list_event_partitions")
_INDEXES = statement("find_bad_indexes")
_TRANSACTIONS = statement("list_old_transactions")
_PREPARED = statement("list_prepared_transactions")
_SKEWS = statement("list_clock_skews")
_LAGS = statement("list_cursor_lags")
_SETTINGS = statement("list_settings")
_UNVACUUMED = statement("list_unvacuumed")

FIRST, LAST = -1, 2**63 - 1
"""Before the first job, and a job that no other follows."""

_LEGAL = [f"{was or ''}>{became}" for was, became in EVENT_TYPES]
_LOCK_WAIT_S = 5.0
_PATIENCE_S = 90.0
"""For an answer; PostgreSQL itself ends a statement of a check-up sooner, and says so."""

INDEXES = (
    "jobs_pkey",
    "jobs_job_id",
    "ready_pkey",
    "ready_claim",
    "ready_expires",
    "scheduled_pkey",
    "scheduled_due",
    "scheduled_expires",
    "scheduled_unhandled",
    "leases_pkey",
    "finished_pkey",
    "finished_dead",
    "idempotency_keys_pkey",
    "queues_name",
    "job_events_xid",
    "job_events_ids",
    "job_events_kept_job",
)
"""Indexes that statements rely on."""


@asynccontextmanager
async def snapshot(pool: Pool, seconds: float) -> AsyncIterator[Connection]:
    """Lend a connection in one read-only snapshot, each statement bounded by ``seconds``."""
    async with (
        pool.acquire() as connection,
        transaction(connection, snapshot=True),
    ):
        await connection.execute(
            _LIMIT, str(int(seconds * 1000)), str(int(min(seconds, _LOCK_WAIT_S) * 1000))
        )
        yield connection


@dataclass(frozen=True, slots=True)
class Extent:
    """After which job a walk begins, and about how many jobs it meets."""

    after: int
    about: int


async def find_extent(db: Connection, newest: int | None) -> Extent:
    """Return the extent of all jobs, or of the ``newest``."""
    row = await db.fetchrow(_NEWEST, newest or 0, timeout=_PATIENCE_S)
    assert row is not None, "an aggregate without groups is one row"
    if newest is None or row["after"] is None:
        return Extent(FIRST, row["about"])
    return Extent(row["after"], newest)


@dataclass(frozen=True, slots=True)
class Page:
    """The last job of a page, and how many it has; ``upto`` LAST: nothing is after it."""

    upto: int
    jobs: int


async def find_job_page(db: Connection, after: int, size: int) -> Page:
    """Return the page of ``size`` jobs after a job; the last one ends only with LAST."""
    row = await db.fetchrow(_PAGE, after, size, timeout=_PATIENCE_S)
    if row is None:
        return Page(LAST, 0)
    return Page(row["upto"] if row["jobs"] == size else LAST, row["jobs"])


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A job in no place, in several or in a wrong queue; without ``job_id`` a row without a job."""

    job: int
    job_id: UUID | None
    places: str | None


async def find_misplaced_jobs(
    db: Connection, after: int, upto: int, limit: int
) -> tuple[list[Misplaced], int]:
    """Return the first misplaced jobs of a page, and how many there are."""
    rows = await db.fetch(_MISPLACED, after, upto, limit, timeout=_PATIENCE_S)
    found = [Misplaced(r["job"], r["job_id"], r["places"]) for r in rows]
    return found, rows[0]["total"] if rows else 0


@dataclass(frozen=True, slots=True)
class Broken:
    """Jobs of a page whose events fail a check: the first ones, and how many there are."""

    job_ids: tuple[UUID, ...]
    total: int


async def find_broken_records(
    db: Connection, after: int, upto: int, limit: int
) -> dict[str, Broken]:
    """Return what is wrong with the events of a page's jobs, by check; sound ones are not in it."""
    found: dict[str, list[UUID]] = {}
    totals: dict[str, int] = {}
    for row in await db.fetch(_BROKEN, after, upto, _LEGAL, limit, timeout=_PATIENCE_S):
        found.setdefault(row["check"], []).append(row["job_id"])
        totals[row["check"]] = row["total"]
    return {check: Broken(tuple(ids), totals[check]) for check, ids in found.items()}


@dataclass(frozen=True, slots=True)
class KeyPage:
    """A page of idempotency keys: where it ends, how many it has, and those without a job."""

    end: tuple[str, str] | None
    keys: int
    orphans: Broken


async def find_orphan_keys(
    db: Connection, after: tuple[str, str], size: int, limit: int
) -> KeyPage:
    """Look at the ``size`` keys after a (tenant, key); ``end`` None: these were the last."""
    row = await db.fetchrow(_ORPHAN_KEYS, *after, size, limit, timeout=_PATIENCE_S)
    assert row is not None, "it selects scalars"
    end = (row["tenant"], row["key"]) if row["keys"] == size else None
    return KeyPage(end, row["keys"], Broken(tuple(row["job_ids"]), row["orphans"]))


async def find_keyless_jobs(db: Connection, after: int, upto: int, limit: int) -> Broken:
    """Return the jobs of a page whose idempotency key does not name them."""
    rows = await db.fetch(_KEYLESS, after, upto, limit, timeout=_PATIENCE_S)
    return Broken(tuple(r["job_id"] for r in rows), rows[0]["total"] if rows else 0)


@dataclass(frozen=True, slots=True)
class WrongFigure:
    """A depth that is not what the tables hold."""

    queue: str
    status: str
    figure: int
    counted: int


async def find_wrong_figures(db: Connection) -> list[WrongFigure]:
    """Compare the figures of all queues with a count of all rows."""
    rows = await db.fetch(_FIGURES, timeout=_PATIENCE_S)
    return [WrongFigure(r["queue"], r["status"], r["figure"], r["counted"]) for r in rows]


@dataclass(frozen=True, slots=True)
class Overdue:
    """Rows of a table that should have moved: the oldest ones, and how many there are."""

    job_ids: tuple[str, ...]
    total: int
    oldest_s: float


async def find_overdue_jobs(db: Connection, seconds: float, limit: int) -> dict[str, Overdue]:
    """Return what is overdue by more than ``seconds``, by kind: leases, scheduled, ttl."""
    found: dict[str, Overdue] = {}
    for row in await db.fetch(_OVERDUE, seconds, limit, timeout=_PATIENCE_S):
        before = found.get(row["place"])
        ids = (*(before.job_ids if before else ()), str(row["job_id"]))
        found[row["place"]] = Overdue(ids, row["total"], row["oldest_s"])
    return found


@dataclass(frozen=True, slots=True)
class StaleNumber:
    """A sequence that stands below the last number that was given out."""

    name: str
    stands: int
    given: int


async def find_stale_numbers(db: Connection) -> list[StaleNumber]:
    """Return the sequences that will give out numbers again."""
    rows = await db.fetch(_STALE_NUMBERS, timeout=_PATIENCE_S)
    return [StaleNumber(r["name"], r["stands"], r["given"]) for r in rows]


@dataclass(frozen=True, slots=True)
class Partition:
    """A table of events; times are None for those that are no partition."""

    name: str
    starts_at: datetime | None
    ends_at: datetime | None
    attached: bool
    guarded: bool
    sealed: bool
    passed: bool


_GUARDS = 3


async def list_event_partitions(db: Connection) -> tuple[datetime, list[Partition]]:
    """Return the time now, and all tables of events by name."""
    rows = await db.fetch(_PARTITIONS, timeout=_PATIENCE_S)
    return rows[0]["now"], [
        Partition(
            r["name"],
            r["starts_at"],
            r["ends_at"],
            r["attached"],
            guarded=r["guards"] == _GUARDS,
            sealed=r["sealed"],
            passed=r["passed"],
        )
        for r in rows
    ]


async def find_bad_indexes(db: Connection) -> list[tuple[str, str]]:
    """Return (name, fault) of indexes that are not valid or missing."""
    return [(r["name"], r["fault"]) for r in await db.fetch(_INDEXES, INDEXES, timeout=_PATIENCE_S)]


@dataclass(frozen=True, slots=True)
class OldTransaction:
    """A transaction that is open for long."""

    pid: int
    role: str
    application: str
    state: str
    age_s: float


async def list_old_transactions(db: Connection, seconds: float) -> tuple[list[OldTransaction], int]:
    """Return those open for more than ``seconds``, and how many sessions we may not look at."""
    rows = await db.fetch(_TRANSACTIONS, seconds, timeout=_PATIENCE_S)
    found = [
        OldTransaction(r["pid"], r["role"], r["application"], r["state"], r["age_s"])
        for r in rows
        if r["pid"] is not None
    ]
    return found, rows[0]["hidden"]


async def list_prepared_transactions(
    db: Connection, seconds: float
) -> list[tuple[str, str, float]]:
    """Return (name, role, age in seconds) of those prepared for more than ``seconds``."""
    rows = await db.fetch(_PREPARED, seconds, timeout=_PATIENCE_S)
    return [(r["name"], r["role"], r["age_s"]) for r in rows]


async def list_clock_skews(db: Connection) -> list[tuple[str, float]]:
    """Return (worker, seconds its clock is ahead of the database's), furthest first."""
    return [
        (r["worker_id"], r["clock_skew_ms"] / 1000)
        for r in await db.fetch(_SKEWS, timeout=_PATIENCE_S)
    ]


@dataclass(frozen=True, slots=True)
class CursorLag:
    """How far a consumer of events is behind: None when it has passed all.

    ``idle``: servers move its cursor in turn, and none does now.
    """

    name: str
    void: bool
    idle: bool
    behind_s: float | None


async def list_cursor_lags(db: Connection) -> list[CursorLag]:
    """Return all consumers of events by name."""
    return [
        CursorLag(r["name"], r["void"], r["idle"], r["behind_s"])
        for r in await db.fetch(_LAGS, timeout=_PATIENCE_S)
    ]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What our promises rest on: the version, whether it is a standby, settings by name.

    ``unlogged`` are tables of ours that a crash would empty.
    """

    version: int
    standby: bool
    unlogged: tuple[str, ...]
    values: dict[str, str]


_NO_SETTING = ("version", "standby", "unlogged")


async def list_settings(db: Connection) -> ServerSettings:
    """Return them as this connection sees them."""
    row = await db.fetchrow(_SETTINGS, timeout=_PATIENCE_S)
    assert row is not None, "it selects no table"
    values = {name: value for name, value in row.items() if name not in _NO_SETTING}
    return ServerSettings(row["version"], row["standby"], tuple(row["unlogged"]), values)


async def list_unvacuumed(db: Connection) -> Sequence[tuple[str, str]]:
    """Return (setting or table, fault) of what autovacuum does not reach."""
    return [(r["name"], r["fault"]) for r in await db.fetch(_UNVACUUMED, timeout=_PATIENCE_S)]
