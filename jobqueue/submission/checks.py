"""Checks that look once, in one snapshot: the cluster, the schema, the loops (R-8)."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from jobqueue.domain.checkup import EXAMPLES, Check, Finding, Verdict, shown
from jobqueue.store import doctor as store
from jobqueue.store.migrate import head, knows, schema_revision
from jobqueue.store.pool import Connection

Look = Callable[[Connection], Awaitable[Finding]]

OLD_TRANSACTION_S = 300.0
SKEW_S = 1.0
OVERDUE_S = 60.0
BEHIND_S = 60.0
WARN_AHEAD_S, FAIL_AHEAD_S = 7 * 86_400.0, 86_400.0
LATE_S = 3 * 86_400.0
"""What is over so long should have been dealt with: upkeep waits a day, for a clock set back."""
OLDEST_POSTGRES, NEWEST_POSTGRES = 15, 18

_NEEDED = {
    "fsync": (("on",), "a power cut may lose accepted jobs and damage the cluster"),
    "full_page_writes": (("on",), "a power cut may damage tables"),
    "synchronous_commit": (
        ("on", "local", "remote_write", "remote_apply"),
        "a crash may lose jobs that were accepted",
    ),
    "default_transaction_read_only": (("off",), "nothing can be written"),
    "default_transaction_isolation": (
        ("read committed",),
        "submissions, cancels and retries refuse to run",
    ),
}


async def check_settings(db: Connection) -> Finding:
    """FAIL where a setting breaks a promise, WARN at a version that was never tried."""
    found = await store.list_settings(db)
    faults = [
        f"{name} is {found.values[name]}: {then}"
        for name, (good, then) in _NEEDED.items()
        if found.values[name] not in good
    ]
    faults += [f"table {name} is unlogged: a crash empties it" for name in found.unlogged]
    if found.standby:
        faults.append("this is a standby: nothing can be written")
    if faults:
        return _bad(
            Check.SETTINGS,
            faults,
            "Set them right in postgresql.conf and reload; ALTER TABLE … SET LOGGED.",
        )
    if not OLDEST_POSTGRES <= found.version <= NEWEST_POSTGRES:
        told = f"PostgreSQL {found.version} was never tried"
        return _warning(Check.SETTINGS, [told], "Use PostgreSQL 15 to 18.")
    return _ok(Check.SETTINGS, f"PostgreSQL {found.version}, durable, writable")


async def check_schema(db: Connection) -> Finding:
    """FAIL at an older revision than this version brings, WARN at a newer one."""
    revision, ours = await schema_revision(db), head()
    if revision == ours:
        return _ok(Check.SCHEMA, f"at {ours}")
    if revision is None or knows(revision):
        told = f"at {revision}, this version brings {ours}"
        return _bad(Check.SCHEMA, [told], "Run jq-server migrate.")
    told = f"at {revision}, which is newer than this version"
    return _warning(Check.SCHEMA, [told], "Finish the upgrade: servers, then workers.")


async def check_indexes(db: Connection) -> Finding:
    """FAIL where an index is missing or not valid."""
    bad = await store.find_bad_indexes(db)
    if not bad:
        return _ok(Check.INDEXES, "all there and valid")
    advice = "REINDEX INDEX CONCURRENTLY what is not valid; make again what is missing."
    return _bad(Check.INDEXES, [f"{name} is {fault}" for name, fault in bad], advice)


async def check_partitions(db: Connection, retention_s: float | None = None) -> Finding:
    """FAIL where events can be changed or will soon have no place, WARN at less than a week.

    WARN too of what hourly turns of a server should have dropped or indexed days ago.
    """
    now, tables = await store.list_event_partitions(db)
    ahead_s = _ahead_s(now, tables)
    days = f"partitions reach {ahead_s / 86_400:.1f} days ahead"
    open_ones = [
        f"{t.name} can be changed, or takes illegal moves"
        for t in tables
        if t.attached and not t.guarded
    ]
    if open_ones:
        advice = (
            "Somebody dropped or disabled triggers or a CHECK; see alembic/sql/0001/03_events.sql."
        )
        return _bad(Check.PARTITIONS, open_ones, advice)
    advice = "Start a jq-server, or see in its log why upkeep-partitions or upkeep-events fails."
    if ahead_s < FAIL_AHEAD_S:
        return _bad(Check.PARTITIONS, [days], advice)
    if ahead_s < WARN_AHEAD_S:
        return _warning(Check.PARTITIONS, [days], advice)
    left = _left_undone(now, tables, retention_s)
    if left:
        advice = f"The next hourly turn of a server finishes it. {advice}"
        return _warning(Check.PARTITIONS, left, advice)
    return _ok(Check.PARTITIONS, days)


def _left_undone(
    now: datetime, tables: Sequence[store.Partition], retention_s: float | None
) -> list[str]:
    left = [f"{table.name} is detached" for table in tables if not table.attached]
    over = [table for table in tables if _over_s(now, table) > LATE_S]
    left += [f"{table.name} has no index by job" for table in over if not table.sealed]
    if retention_s is not None:
        old = [t for t in over if t.passed and _over_s(now, t) > retention_s + LATE_S]
        left += [f"{table.name} is older than the retention of events" for table in old]
    return left


def _over_s(now: datetime, table: store.Partition) -> float:
    """Return for how many seconds a partition has taken no more events."""
    return (now - table.ends_at).total_seconds() if table.ends_at else 0.0


def _ahead_s(now: datetime, tables: Sequence[store.Partition]) -> float:
    """Return for how many seconds from now there is a partition without a break."""
    upto = now
    for table in sorted(tables, key=lambda t: t.starts_at or now):
        if table.starts_at and table.ends_at and table.attached:
            upto = table.ends_at if table.starts_at <= upto < table.ends_at else upto
    return (upto - now).total_seconds()


async def check_autovacuum(db: Connection) -> Finding:
    """WARN where autovacuum does not come: claims slow down until it does."""
    bad = await store.list_unvacuumed(db)
    if not bad:
        return _ok(Check.AUTOVACUUM, "on for every table")
    told = [f"{name} {fault}" for name, fault in bad]
    return _warning(Check.AUTOVACUUM, told, "Switch autovacuum and track_counts on everywhere.")


async def check_transactions(db: Connection) -> Finding:
    """WARN at transactions that keep dead rows alive, and so slow claims down."""
    old, hidden = await store.list_old_transactions(db, OLD_TRANSACTION_S)
    unseen = f"; {hidden} sessions of other roles cannot be looked at" if hidden else ""
    if not old:
        return _ok(Check.TRANSACTIONS, f"none is open for more than 5 minutes{unseen}")
    told = [
        f"pid {t.pid} ({t.application or 'no name'}, role {t.role}) is {t.state}"
        f" for {_age(t.age_s)}"
        for t in old
    ]
    advice = "End it where it runs, or by SELECT pg_terminate_backend(PID)."
    return _warning(Check.TRANSACTIONS, [*told[:EXAMPLES]], advice, more=unseen)


async def check_prepared(db: Connection) -> Finding:
    """WARN at prepared transactions that nobody finishes."""
    left = await store.list_prepared_transactions(db, OLD_TRANSACTION_S)
    if not left:
        return _ok(Check.PREPARED, "none is older than 5 minutes")
    told = [f"{name!r} of role {role}, {_age(age_s)} old" for name, role, age_s in left]
    return _warning(Check.PREPARED, told, "COMMIT PREPARED or ROLLBACK PREPARED it.")


async def check_clocks(db: Connection) -> Finding:
    """WARN at clocks that are off; only log lines suffer, leases go by the database's clock."""
    skews = await store.list_clock_skews(db)
    wrong = [f"{worker} is {_ahead(skew)}" for worker, skew in skews if abs(skew) > SKEW_S]
    if wrong:
        advice = (
            "Correct the clocks of these hosts. No job is at risk: only the database's clock "
            "counts; but times in their logs mislead."
        )
        return _warning(Check.CLOCKS, wrong, advice)
    if not skews:
        return _ok(Check.CLOCKS, "no worker told its time")
    told = f"{len(skews)} workers, the furthest is {_ahead(skews[0][1])}"
    return _ok(Check.CLOCKS, told)


async def check_cursors(db: Connection) -> Finding:
    """WARN where a consumer of events is behind or cannot go on."""
    lags = await store.list_cursor_lags(db)
    void = [f"{lag.name} is from another cluster" for lag in lags if lag.void]
    late = [
        f"{lag.name} is {_age(lag.behind_s)} behind"
        for lag in lags
        if lag.behind_s is not None and lag.behind_s > BEHIND_S and not lag.void
    ]
    if void or late:
        advice = (
            "See jq-ctl status for the loop that moves it. Until it goes on, partitions of "
            "events are not dropped."
        )
        if any(lag.idle for lag in lags):
            advice += (
                " No server publishes to Kafka: set kafka.brokers, or, when Kafka is off for good,"
                " run jq-ctl events disconnect."
            )
        return _warning(Check.CURSORS, [*void, *late], advice)
    return _ok(Check.CURSORS, f"{len(lags)} consumers, none is more than 60 s behind")


async def check_overdue(db: Connection) -> Finding:
    """FAIL where leases or waiting jobs should have been dealt with a minute ago."""
    overdue = await store.find_overdue_jobs(db, OVERDUE_S, EXAMPLES)
    if not overdue:
        return _ok(Check.OVERDUE, "nothing is overdue by more than 60 s")
    words = {
        "leases": "expired leases",
        "scheduled": "jobs that came due",
        "ttl": "jobs whose TTL ended",
    }
    told = [
        f"{late.total} {words[place]} wait, the oldest for {_age(late.oldest_s)}"
        for place, late in overdue.items()
    ]
    ids = [job_id for late in overdue.values() for job_id in late.job_ids]
    advice = (
        "Start a jq-server, or see in jq-ctl status which loop fails. A lease whose row an "
        "application's transaction holds waits for that one."
    )
    return _bad(Check.OVERDUE, told, advice, examples=ids)


async def check_numbers(db: Connection) -> Finding:
    """FAIL where a sequence stands too low: lease tokens would fence nobody off."""
    stale = await store.find_stale_numbers(db)
    if not stale:
        return _ok(Check.NUMBERS, "every sequence stands above what it gave out")
    told = [f"{n.name} stands at {n.stands}, and {n.given} was given out" for n in stale]
    advice = (
        "The tables were copied without their sequences. Stop servers and workers, then SELECT "
        "setval('jobqueue.NAME', NUMBER) with what was given out, plus a margin."
    )
    return _bad(Check.NUMBERS, told, advice)


async def check_figures(db: Connection) -> Finding:
    """FAIL where the depth of a queue is not what a count of all rows gives."""
    wrong = await store.find_wrong_figures(db)
    if not wrong:
        return _ok(Check.FIGURES, "equal to a count of all rows")
    told = [f"{w.queue} {w.status}: {w.figure} told, {w.counted} counted" for w in wrong]
    advice = (
        "Rows were changed by hand, or the database was restored. To count anew: UPDATE "
        "jobqueue.event_cursors SET system_identifier = 0 WHERE name = 'stats'."
    )
    return _bad(Check.FIGURES, told, advice)


LOOKS: dict[Check, Look] = {
    Check.SETTINGS: check_settings,
    Check.SCHEMA: check_schema,
    Check.INDEXES: check_indexes,
    Check.PARTITIONS: check_partitions,
    Check.AUTOVACUUM: check_autovacuum,
    Check.TRANSACTIONS: check_transactions,
    Check.PREPARED: check_prepared,
    Check.CLOCKS: check_clocks,
    Check.CURSORS: check_cursors,
    Check.OVERDUE: check_overdue,
    Check.NUMBERS: check_numbers,
    Check.FIGURES: check_figures,
}
"""The check behind each name; the others walk (``walks``)."""


def _age(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min"  # noqa: PLR2004 - readable


def _ahead(skew_s: float) -> str:
    return f"{abs(skew_s):.3f} s {'ahead' if skew_s > 0 else 'behind'}"


def _ok(check: Check, found: str) -> Finding:
    return Finding(check, Verdict.OK, found)


def _warning(check: Check, faults: Sequence[str], advice: str, *, more: str = "") -> Finding:
    return Finding(check, Verdict.WARN, _told(faults) + more, (), advice)


def _bad(
    check: Check, faults: Sequence[str], advice: str, *, examples: Sequence[str] = ()
) -> Finding:
    return Finding(check, Verdict.FAIL, _told(faults), shown(examples), advice)


def _told(faults: Sequence[str]) -> str:
    more = f"; and {len(faults) - EXAMPLES} more" if len(faults) > EXAMPLES else ""
    return "; ".join(faults[:EXAMPLES]) + more
