"""Reads a history from a system: tables, topic, notes, and what callers were told."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from jobqueue.store.pool import Connection
from jobqueue.v1.job_pb2 import JobStatus
from tests.chaos.history import Call, Event, History, Published, Row, Rules, Run
from tests.chaos.system import notes_of
from tests.support.kafka import Listener
from tests.support.waiting import eventually

_EVENTS = """
    SELECT eid, job_id::text AS job, seq, from_status, to_status,
           extract(epoch FROM at)::float8 AS at, reason, attempt, token, worker_id,
           coalesce(detail, '') AS detail
    FROM jobqueue.job_event_log ORDER BY job, seq
"""
Begun = tuple[int, float]
"""A process and when the attempt began in it."""

_LAST_END_S = 10.0
_ROUNDED_S = 1.0
"""The system tells when a process began from the second of its own start."""

_ROWS = """
    SELECT s.job_id::text AS job, s.queue, s.status, s.seq, s.attempt, s.retry_count,
           s.max_retries, extract(epoch FROM s.created_at)::float8 AS created_at,
           extract(epoch FROM j.not_before)::float8 AS not_before, j.ttl_s,
           j.idempotency_key AS key, convert_from(j.payload, 'UTF8') AS ref, f.result,
           f.token IS NOT NULL AS by_holder
    FROM jobqueue.job_status s
    JOIN jobqueue.jobs j ON j.id = s.job
    LEFT JOIN jobqueue.finished f ON f.id = s.job
"""


_NOTE_PROMISES = """
    CREATE TABLE public.promises (token bigint PRIMARY KEY, until timestamptz NOT NULL);
    CREATE FUNCTION public.note_promise() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        INSERT INTO public.promises SELECT token, expires_at FROM n
        ON CONFLICT (token) DO UPDATE SET until = excluded.until;
        RETURN NULL;
    END $$;
    CREATE TRIGGER promised AFTER UPDATE ON jobqueue.leases REFERENCING NEW TABLE AS n
        FOR EACH STATEMENT EXECUTE FUNCTION public.note_promise();
"""
_PROMISES = "SELECT token, extract(epoch FROM until)::float8 AS until FROM public.promises"


async def note_promises(db: Connection) -> None:
    """From now on let the database keep until when each lease was to last by its last renewal.

    The row of a lease is locked by whoever writes that, so no two of them meet there.
    """
    await db.execute(_NOTE_PROMISES)


async def read_promises(db: Connection) -> Mapping[int, float]:
    """Return what was kept since, by token."""
    return {row["token"]: row["until"] for row in await db.fetch(_PROMISES)}


async def read_history(
    db: Connection,
    rules: Rules,
    calls: Sequence[Call],
    notes: Path,
    published: Sequence[Published] | None,
) -> History:
    """Return what is known of every job."""
    events = [
        Event(
            row["eid"],
            row["job"],
            row["seq"],
            row["from_status"],
            row["to_status"],
            row["at"],
            row["reason"],
            row["attempt"],
            row["token"],
            row["worker_id"],
            row["detail"],
        )
        for row in await db.fetch(_EVENTS)
    ]
    rows = [
        Row(
            row["job"],
            row["queue"],
            row["status"],
            row["seq"],
            row["attempt"],
            row["retry_count"],
            row["max_retries"],
            row["created_at"],
            row["not_before"],
            row["ttl_s"],
            row["key"],
            row["ref"],
            row["result"].decode() if row["result"] is not None else None,
            row["by_holder"],
        )
        for row in await db.fetch(_ROWS)
    ]
    runs, unfinished = await asyncio.to_thread(read_notes, notes)
    return History(rules, rows, events, calls, runs, published, await outlasting(unfinished))


def read_notes(folder: Path) -> tuple[list[Run], Mapping[str, Begun]]:
    """Return every attempt that was begun, and the processes of those that did not return."""
    begun: dict[str, tuple[str, int, int, float]] = {}
    seen: dict[str, float] = {}
    returned: set[str] = set()
    for words in notes_of(folder):
        match words:
            case ["begun", job, attempt, nonce, pid, at]:
                begun[nonce] = (job, int(attempt), int(pid), float(at))
            case ["alive" | "returned" as what, nonce, at]:
                seen[nonce] = max(seen.get(nonce, 0.0), float(at))
                if what == "returned":
                    returned.add(nonce)
    runs = [
        Run(job, attempt, nonce, at, max(at, seen.get(nonce, 0.0)), nonce in returned)
        for nonce, (job, attempt, _, at) in begun.items()
    ]
    unfinished = {
        nonce: (pid, at) for nonce, (*_, pid, at) in begun.items() if nonce not in returned
    }
    return runs, unfinished


async def outlasting(unfinished: Mapping[str, Begun], within_s: float = _LAST_END_S) -> list[str]:
    """Return the nonces of attempts whose process lives on.

    The job of a worker that stood still may have come to its end elsewhere before the worker hears
    that it lost the lease: then it ends its own attempt, and has some time for that.
    """
    left = list(unfinished)

    async def none() -> bool:
        left[:] = await asyncio.to_thread(lambda: [n for n in left if _lives(*unfinished[n])])
        return not left

    with contextlib.suppress(AssertionError):
        await eventually(none, within_s=within_s, what="the end of every attempt")
    return left


def _lives(pid: int, at: float) -> bool:
    """Tell whether the process of an attempt, begun then, still runs. Ids are used again.

    A worker's own process runs many attempts: there, being alive says nothing.
    """
    try:
        process = psutil.Process(pid)
        begun_before = process.create_time() <= at + _ROUNDED_S
        return begun_before and "jq-worker" not in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


async def read_kafka(listener: Listener, db: Connection, *, within_s: float) -> list[Published]:
    """Wait until the topic has as many events as the record; return what came, in its order.

    After ``within_s`` seconds in which nothing came the checker says which are missing.
    """
    recorded: int = await db.fetchval("SELECT count(*) FROM jobqueue.job_events")
    came, ids = 0, set[int]()

    async def more() -> bool:
        heard = await asyncio.to_thread(listener.listen)
        ids.update(each.event.event_id for each in heard[came:])
        return len(heard) > came

    with contextlib.suppress(AssertionError):
        while len(ids) < recorded:
            await eventually(more, within_s=within_s, what=f"{recorded} events in Kafka")
            came = len(listener.heard)
    return [
        Published(
            each.event.event_id,
            each.event.job_id,
            each.event.sequence,
            JobStatus.Name(each.event.to_status).removeprefix("JOB_STATUS_"),
        )
        for each in listener.heard
    ]
