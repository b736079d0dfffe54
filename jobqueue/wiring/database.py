"""Which database, and what to do when it is not there yet."""

import asyncio

from jobqueue.config.model import DbSettings
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import DeadlineExceeded, Unavailable
from jobqueue.runtime.log import Quiet, get_logger
from jobqueue.runtime.service import Service
from jobqueue.store.pool import connect
from jobqueue.wiring.options import EmbeddedChoice

PATIENCE_S = 30.0
"""A database that starts beside us is waited for this long."""

_FIRST_WAIT_S, _LAST_WAIT_S = 0.25, 4.0
_REVIVAL_INTERVAL_S, _REVIVAL_BOUND_S = 1.0, 25.0
"""A server that recovers may say nothing for a minute before its start is given up."""

_log = get_logger(__name__)


async def start_embedded(choice: EmbeddedChoice) -> EmbeddedPostgres:
    """Start the private PostgreSQL. Raises EmbeddedError.

    A cancelled start is completed and undone: a half-started database is nobody's.
    """
    database = EmbeddedPostgres(choice.folder())
    database.tell = _tell
    starting = asyncio.ensure_future(asyncio.to_thread(database.start))
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        database.give_up()
        await asyncio.wait({starting})
        await asyncio.to_thread(database.stop)
        raise
    return database


def _tell(line: str) -> None:
    _log.info("the embedded database is not ready yet", said=line)


class DatabaseRevival(Service):
    """Starts the private PostgreSQL again when it was killed: nobody else would."""

    def __init__(self, database: EmbeddedPostgres) -> None:
        super().__init__(
            "embedded-database", interval_s=_REVIVAL_INTERVAL_S, bound_s=_REVIVAL_BOUND_S
        )
        self._database = database
        database.tell = self._recovers

    async def turn(self) -> float | None:
        """Look once. Raises EmbeddedError when it does not come up."""
        if await asyncio.to_thread(self._database.revive):
            _log.warning("the embedded database had ended by itself and was started again")
        return None

    def _recovers(self, line: str) -> None:
        """Note that a turn gets on, however long it takes (R-7.4). Called in its thread."""
        self.last_progress = self._clock.monotonic()
        _tell(line)


async def await_database(db: DbSettings, dsn: str, patience_s: float = PATIENCE_S) -> None:
    """Return once PostgreSQL answers.

    Tries again with growing waits, saying so. Raises Unavailable after ``patience_s``; what
    waiting cannot heal, such as a wrong password, is raised at once.
    """
    loop, quiet = asyncio.get_running_loop(), Quiet()
    deadline, wait_s = loop.time() + patience_s, _FIRST_WAIT_S
    while (error := await _try(db, dsn)) is not None:
        if loop.time() + wait_s > deadline:
            raise error
        if quiet.admits(cause := cause_of(error)):
            _log.warning("waiting for PostgreSQL", cause=cause, again_in_s=wait_s)
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _LAST_WAIT_S)


async def check_not_refused(db: DbSettings, dsn: str) -> None:
    """Raise Internal when PostgreSQL answers and refuses: a wrong password, an unknown name.

    Waiting heals neither. One that does not answer is no fault here: whoever needs it waits.
    """
    await _try(db, dsn)


async def _try(db: DbSettings, dsn: str) -> Unavailable | DeadlineExceeded | None:
    try:
        connection = await connect(
            dsn, connect_timeout_s=db.connect_timeout_ms / 1000, pgbouncer=db.pgbouncer
        )
    except (Unavailable, DeadlineExceeded) as error:
        return error
    await connection.close()
    return None


def cause_of(error: BaseException) -> str:
    """Return the error with what the driver said, which names host or user."""
    said = str(error.__cause__) if error.__cause__ else ""
    return f"{error}: {said}" if said and said not in str(error) else str(error)
