"""Statements on the registry of workers."""

from dataclasses import dataclass

from jobqueue.domain.worker import Worker, WorkerCommand, WorkerFacts
from jobqueue.store import rows
from jobqueue.store.pool import SWEEP_TIMEOUT_S, Db
from jobqueue.store.statements import statement

_REGISTER = statement("register_worker")
_BEAT = statement("beat_worker")
_DEREGISTER = statement("deregister_worker")
_OPEN_STREAM = statement("open_stream")
_NEWEST_STREAM = statement("get_newest_stream")
_SESSION_KEY = statement("get_session_key")
_LIST = statement("list_workers")
_COMMAND = statement("command_worker")
_MARK_OFFLINE = statement("mark_offline_workers")
_PRUNE = statement("prune_workers")
_PRUNE_NAMES = statement("prune_worker_names")


@dataclass(frozen=True, slots=True)
class Serving:
    """What one stream serves; ``room`` is how many jobs its worker may hold at once."""

    stream: int
    queues: tuple[str, ...]
    types: frozenset[str]
    room: int


async def register_worker(db: Db, facts: WorkerFacts) -> int:
    """Register a worker, or again; return its number."""
    number: int = await db.fetchval(
        _REGISTER,
        facts.worker_id,
        facts.hostname,
        facts.pid,
        facts.queues,
        facts.types,
        facts.concurrency,
        facts.mode,
        facts.version,
        facts.prefetch,
    )
    return number


async def open_stream(db: Db, worker: int) -> Serving | None:
    """Begin to stream jobs to a worker; None when it is not registered."""
    row = await db.fetchrow(_OPEN_STREAM, worker)
    if row is None:
        return None
    room = row["concurrency"] + row["prefetch"]
    return Serving(
        row["stream"], rows.names(row["queues"]), frozenset(rows.names(row["types"])), room
    )


async def is_newest_stream(db: Db, worker: int, stream: int) -> bool:
    """Tell whether no other stream was opened since; False also when the worker is gone."""
    newest: int | None = await db.fetchval(_NEWEST_STREAM, worker)
    return newest == stream


async def get_session_key(db: Db) -> bytes:
    """Return what servers sign the sessions of remote workers with."""
    key: bytes = await db.fetchval(_SESSION_KEY)
    return key


async def beat_worker(
    db: Db,
    worker: int,
    *,
    draining: bool = False,
    clock_s: float | None = None,
    facts: WorkerFacts | None = None,
) -> WorkerCommand | None:
    """Say that the worker lives; return what is asked of it, None when its row is gone.

    ``clock_s`` is the worker's own time, seconds since 1970: the database notes how far it is off.
    By ``facts`` a worker finds out that another process has registered under its id.
    """
    command = await db.fetchval(_BEAT, worker, draining, clock_s, *_process(facts))
    return WorkerCommand(command) if command else None


async def deregister_worker(db: Db, worker: int, facts: WorkerFacts | None = None) -> None:
    """Remove a worker that ended; with ``facts`` only if it registered last under its id."""
    await db.execute(_DEREGISTER, worker, *_process(facts))


def _process(facts: WorkerFacts | None) -> tuple[str | None, int | None]:
    return (facts.hostname, facts.pid) if facts else (None, None)


async def list_workers(db: Db) -> list[Worker]:
    """Return all registered workers by id."""
    return [rows.worker(row) for row in await db.fetch(_LIST)]


async def command_worker(db: Db, worker_id: str, command: WorkerCommand) -> bool:
    """Ask a worker to drain or shut down; False when there is no such worker."""
    return await db.fetchval(_COMMAND, worker_id, command) is not None


async def mark_offline_workers(db: Db, timeout_s: float) -> int:
    """Show workers as OFFLINE that had no beat for ``timeout_s`` seconds; return how many."""
    return len(await db.fetch(_MARK_OFFLINE, timeout_s))


async def prune_workers(db: Db, age_s: float = 86_400.0, keep: int = 1_000) -> int:
    """Remove workers OFFLINE with no beat for ``age_s`` seconds; return how many.

    Of more than ``keep`` OFFLINE ones those go too that have been silent longest.
    """
    pruned: int = await db.fetchval(_PRUNE, age_s, keep)
    return pruned


async def prune_worker_names(db: Db) -> int:
    """Forget names of workers that are in no record any more; return how many.

    Their events are gone with the partitions; nothing that stays longer names them.
    """
    pruned: int = await db.fetchval(_PRUNE_NAMES, timeout=SWEEP_TIMEOUT_S)
    return pruned
