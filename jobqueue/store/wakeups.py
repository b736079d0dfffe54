"""NOTIFY and LISTEN: hints that may be lost. Polling is always the backstop."""

import asyncio
from collections.abc import Callable, Iterable

from jobqueue.runtime.service import Service
from jobqueue.store.faults import translated
from jobqueue.store.pool import Connection, Db, check, connect
from jobqueue.store.statements import statement

CHANNEL = "jobqueue_ready"
_NOTIFY = statement("notify_queues")
_MAX_BYTES = 7_900  # PostgreSQL refuses a payload of 8,000


async def notify_queues(db: Db, queues: Iterable[str]) -> None:
    """Tell idle workers of these queues that there may be work. After commit only."""
    for payload in _payloads(sorted(set(queues))):
        await db.execute(_NOTIFY, payload)


def hint_of(queues: Iterable[str]) -> str | None:
    """Return the hint of these queues for a statement to send; None: none, or more than fits."""
    payloads = _payloads(sorted(set(queues)))
    return payloads[0] if len(payloads) == 1 else None


def _payloads(names: list[str]) -> list[str]:
    """Join names with commas into as few payloads as fit."""
    payloads: list[str] = []
    for name in names:
        if payloads and len(payloads[-1]) + len(name) < _MAX_BYTES:
            payloads[-1] += f",{name}"
        else:
            payloads.append(name)
    return payloads


Heard = Callable[[frozenset[str]], None]
"""Gets the names of queues that may have jobs; no names: any may, as hints were missed. Runs on the
loop, and must not block."""


async def connect_listening(
    dsn: str,
    heard: Heard,
    closed: Callable[[], None],
    *,
    connect_timeout_s: float,
    application_name: str,
) -> Connection:
    """Open a connection that hints arrive on, and call ``heard`` with no names first.

    ``closed`` is called soon after its end, whoever ends it; that a peer is gone without a word is
    found only by asking. Raises Unavailable when it cannot be had in time.
    """
    connection = await connect(
        dsn, connect_timeout_s=connect_timeout_s, application_name=application_name
    )
    try:
        with translated():
            async with asyncio.timeout(connect_timeout_s):
                await connection.add_listener(CHANNEL, lambda *args: heard(_names(args[3])))
        connection.add_termination_listener(lambda _: closed())
    except BaseException:
        connection.terminate()
        raise
    heard(frozenset())
    return connection


def _names(payload: object) -> frozenset[str]:
    return frozenset(str(payload).split(","))


class Listener(Service):
    """Calls back with queue names as hints arrive, on a connection of its own.

    Replaces a dead connection by itself. ``healthy`` tells whether hints can arrive now. While
    nobody needs hints it has no connection: each hint would wake two processes for nothing.
    """

    def __init__(
        self,
        dsn: str,
        heard: Heard,
        *,
        connect_timeout_s: float = 3.0,
        check_interval_s: float = 30.0,
        application_name: str = "jq-listener",
        needed: Callable[[], bool] = lambda: True,
    ) -> None:
        """``needed`` is asked at each turn: wake the loop when hints are needed at once."""
        super().__init__("listener", interval_s=check_interval_s)
        self._needed = needed
        self._application_name = application_name
        self._dsn = dsn
        self._heard = heard
        self._connect_timeout_s = connect_timeout_s
        self._connection: Connection | None = None

    @property
    def healthy(self) -> bool:
        """True while a connection listens."""
        return self._connection is not None and not self._connection.is_closed()

    async def turn(self) -> None:
        """Connect when there is no connection, else prove that the peer still answers."""
        if not self._needed():
            await self.teardown()
            return
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect_listening(
                self._dsn,
                self._heard,
                self.wake,
                connect_timeout_s=self._connect_timeout_s,
                application_name=self._application_name,
            )
            return
        await check(self._connection, self._connect_timeout_s)

    async def teardown(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
