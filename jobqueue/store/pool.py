"""Connections to PostgreSQL, with the settings that every statement here relies on.

Behind PgBouncer in transaction mode two statements of one connection may run in two sessions. So
nothing is prepared under a name, nothing is set for a session, nothing is reset; what a session
must have comes from PgBouncer's ``connect_query`` or from the role (docs/operations.md).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import asyncpg
from asyncpg.transaction import Transaction

from jobqueue.errors import FailedPrecondition, JobQueueError
from jobqueue.runtime.tasks import start_detached
from jobqueue.store.faults import DRIVER_ERRORS, demoted, translated
from jobqueue.store.hosts import connect_to_any
from jobqueue.store.seams import connection_class
from jobqueue.store.signals import QUERY_ENDED, QueryEnded
from jobqueue.store.statements import name_of, statement

# Quoted: asyncpg's classes are generic for the type checker only.
Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Db: TypeAlias = "Connection | Pool"
"""What store functions take first: a pool, or a connection whose transaction the caller owns."""

STATEMENT_TIMEOUT_S = 30.0
"""What a statement on a pool may take, unless it says so itself: a database that hangs, or a host
that is gone without a word, must not keep a connection and its caller for ever."""

SWEEP_TIMEOUT_S = 600.0
"""What a statement may take that reads whole partitions of events, or waits for every older
transaction to detach one. It stops nobody meanwhile."""

WEEK_TIMEOUT_S = 6 * 3_600.0
"""What may take that goes through a week of events to keep or to index them: where the disk is slow
and the week was busy, hours. It stops nobody meanwhile either."""

_RELEASE_TIMEOUT_S = 5.0
_ROLLBACK_TIMEOUT_S = 1.0
_RENEWED_AFTER_QUERIES, _CLOSED_WHEN_IDLE_S = 50_000, 300.0

LEFT_OPEN_S = 10.0
"""After so long the server ends a session that stands still in a transaction. Its program was
stopped, or its host is gone without a word: it would hold its locks for as long as the kernel
believes in the connection, and who waits for one of them, as VACUUM FULL does, holds up all."""

HOT_SETTINGS = {
    # A claim prepared on an empty, vacuumed table gets a generic plan that is a 13 s sequential
    # scan once jobs arrive; custom plans read the real sizes (docs/adr/0002).
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "idle_in_transaction_session_timeout": f"{LEFT_OPEN_S:g}s",
    # Who waits for a lock does not see by itself that its program is gone, and waits on.
    "client_connection_check_interval": "10s",
    # A host that is gone without a word keeps its sessions for 90 s, by default two hours.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}

_POOLED_SETTINGS = {"timezone": "UTC"}
"""Of those, what PgBouncer knows and keeps for each client. Unnamed statements are planned anew
each time; the rest is its administrator's, and the one that costs jobs is checked."""

_READ_SYNCHRONOUS_COMMIT = statement("read_synchronous_commit")
_SET_LOCK_TIMEOUT = statement("set_lock_timeout")
_CHECK = statement("check_connection")


async def check(connection: Connection, timeout_s: float) -> None:
    """Prove that the peer still answers; cut the connection when it does not within ``timeout_s``.

    A half-open socket never says that it is dead; only a question without an answer does.
    """
    try:
        with translated():
            await connection.fetchval(_CHECK, timeout=timeout_s)
    except BaseException:
        cut(connection)
        raise


def cut(connection: Connection) -> None:
    """Close a connection at once; one that was cut, so that its pool has it back, stays so."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


@contextlib.asynccontextmanager
async def transaction(connection: Connection, *, snapshot: bool = False) -> AsyncIterator[None]:
    """Run the block in a transaction. However it fails, a second is enough to be out of it.

    With ``snapshot`` it only reads, and all its statements see one instant.

    A statement that was given up is cancelled on a second connection, and before anything else is
    sent the library waits, without end, for the server to say that it was. So a connection that
    cannot be rolled back in time is cut, which does the same.
    """
    begun = connection.transaction(
        isolation="repeatable_read" if snapshot else None, readonly=snapshot
    )
    try:
        await begun.start()
    except BaseException:
        cut(connection)  # whether it has begun is not known
        raise
    try:
        yield
    except BaseException:
        await _roll_back(connection, begun)
        raise
    await begun.commit()


async def _roll_back(connection: Connection, begun: Transaction) -> None:
    alarm = asyncio.get_running_loop().call_later(_ROLLBACK_TIMEOUT_S, connection.terminate)
    try:
        with contextlib.suppress(*DRIVER_ERRORS):  # why the block failed is what counts
            await begun.rollback()
    finally:
        alarm.cancel()


async def limit_lock_waits(connection: Connection, seconds: float) -> None:
    """Let no lock be waited for longer than ``seconds`` in the rest of the transaction."""
    await connection.execute(_SET_LOCK_TIMEOUT, str(int(seconds * 1000)))


def _options(connect_timeout_s: float, application_name: str, *, pgbouncer: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"timeout": connect_timeout_s}
    if pgbouncer:
        return options | {"statement_cache_size": 0, "server_settings": _POOLED_SETTINGS}
    name = {"application_name": application_name} if application_name else {}
    return options | {"server_settings": HOT_SETTINGS | name}


async def connect(
    dsn: str,
    *,
    connect_timeout_s: float = 3.0,
    pgbouncer: bool = False,
    application_name: str = "",
) -> Connection:
    """Open one connection.

    Raises Unavailable when it cannot be had in time, FailedPrecondition when PgBouncer's sessions
    do not keep what they commit.
    """
    options = _options(connect_timeout_s, application_name, pgbouncer=pgbouncer)
    with translated():
        connection: Connection = await connect_to_any(
            dsn, connection_class=connection_class(), **options
        )
        try:
            if pgbouncer:
                await _require_durable(connection, connect_timeout_s)
            connection.add_query_logger(_tell)
        except BaseException:
            connection.terminate()
            raise
    return connection


def has_free(pool: Pool) -> bool:
    """Tell whether a connection of the pool can be had now, without a wait for others."""
    in_use = pool.get_size() - pool.get_idle_size()
    return in_use < pool.get_max_size()


async def create_pool(
    dsn: str,
    *,
    size: int = 10,
    connect_timeout_s: float = 3.0,
    pgbouncer: bool = False,
    application_name: str = "",
) -> Pool:
    """Open a pool of at most ``size`` connections, one of them at once.

    A statement may take 30 s unless its call says otherwise. Raises Unavailable when the first
    connection cannot be had, FailedPrecondition as ``connect`` does.
    """
    options = _options(connect_timeout_s, application_name, pgbouncer=pgbouncer)
    options["reset"] = _leave_as_it_is
    with translated():
        pool = await _Pool(
            dsn,
            durable_within_s=connect_timeout_s if pgbouncer else None,
            min_size=0,  # a loop of the library's own would keep up more, and log each failure
            max_size=size,
            max_queries=_RENEWED_AFTER_QUERIES,
            max_inactive_connection_lifetime=_CLOSED_WHEN_IDLE_S,
            loop=None,
            connect=connect_to_any,
            connection_class=connection_class(),
            record_class=asyncpg.Record,
            command_timeout=STATEMENT_TIMEOUT_S,
            **options,
        )
        async with pool.acquire():  # the first one; where it fails there is nothing to close
            return pool


class _Pool(asyncpg.Pool):
    """Takes every connection back within 5 s, and leaves a server that was demoted.

    A statement that is given up is cancelled on a second connection. Where that one is not
    answered either, the library waits for ever, through any timeout of the caller.

    After a failover a connection may lead to what is a standby now: it answers for ever, and
    refuses every write. One refusal has all connections replaced, each before its next use; the
    new ones may find the primary.
    """

    def __init__(self, dsn: str, *, durable_within_s: float | None, **options: Any) -> None:
        """``durable_within_s``: how long each session may take to prove that it is; None: it is."""
        super().__init__(dsn, init=self._begin, **options)
        self._durable_within_s = durable_within_s

    def acquire(
        self,
        *,
        timeout: float | None = None,
    ) -> "_Lending":
        """Lend a connection for an ``async with`` block, however that ends."""
        return _Lending(self, timeout)

    async def release(
        self,
        connection: "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
    ) -> None:
        """Cut what cannot be taken back in time."""
        with contextlib.suppress(TimeoutError):
            await super().release(connection, timeout=timeout or _RELEASE_TIMEOUT_S)

    async def expire_connections(self) -> None:
        """Have every connection replaced before its next use; cut those that are idle.

        The library would take leave of each, and its task fails where no answer to that comes.
        """
        for holder in self._holders:  # type: ignore[attr-defined]
            if holder._con is not None and holder.is_idle():  # noqa: SLF001 - it has no other way
                holder._con.terminate()  # noqa: SLF001
        await super().expire_connections()

    async def _begin(self, connection: Connection) -> None:
        """Get a new connection ready."""
        if self._durable_within_s is not None:
            await _require_durable(connection, self._durable_within_s)
        connection.add_query_logger(self._hear)

    def _hear(self, query: asyncpg.connection.LoggedQuery) -> None:
        _tell(query)
        if query.exception is not None and demoted(query.exception):
            self._leaving = start_detached(self.expire_connections(), "leave-demoted")


class _Lending(asyncpg.pool.PoolAcquireContext):
    """Gives back no connection that stands between the halves of a statement.

    The library has a statement parsed first and then executed, without a sync between. Who is
    cancelled there leaves what PostgreSQL calls an implicit transaction: it holds its locks, and
    the next user cannot begin one that needs a snapshot of its own. A question ends it.
    """

    async def __aexit__(self, *failure: object) -> None:
        """Take the connection back; after a failure, which may be a cancel or come of one, ask."""
        try:
            if any(failure) and self.connection is not None:
                with contextlib.suppress(JobQueueError):  # it is cut then
                    await check(self.connection, _ROLLBACK_TIMEOUT_S)
        finally:
            await super().__aexit__(*failure)


def _tell(query: asyncpg.connection.LoggedQuery) -> None:
    """Signal the end of a statement; costs about as much as reading one row of its answer."""
    QUERY_ENDED.emit(QueryEnded(name_of(query.query), query.elapsed, query.exception is None))


async def _require_durable(connection: Connection, timeout_s: float) -> None:
    """Raise FailedPrecondition when an answer "committed" would not be the truth."""
    if await connection.fetchval(_READ_SYNCHRONOUS_COMMIT, timeout=timeout_s) == "off":
        raise FailedPrecondition(
            "behind PgBouncer synchronous_commit is off, and accepted jobs could be lost:"
            " set it on by PgBouncer's connect_query or by ALTER ROLE",
            reason="NOT_DURABLE",
        )


async def _leave_as_it_is(_connection: Connection) -> None:
    """Reset nothing when a connection goes back to the pool; the library ends a transaction itself.

    No statement of ours leaves anything in a session, and behind PgBouncer there is none. The
    library's own reset is a round trip more for every statement.
    """
