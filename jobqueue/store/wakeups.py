"""NOTIFY and LISTEN: hints that may be lost. Polling is always the backstop."""

from collections.abc import Callable, Iterable

from jobqueue.runtime.service import Service
from jobqueue.store.faults import translated
from jobqueue.store.pool import Connection, Db, connect
from jobqueue.store.statements import statement

CHANNEL = "jobqueue_ready"
_CHECK = statement("check_connection")
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


class Listener(Service):
    """Calls back with queue names as hints arrive, on a connection of its own.

    Replaces a dead connection by itself. ``healthy`` tells whether hints can arrive now. After
    each (re)connect it calls back with no names: hints were missed meanwhile.
    """

    def __init__(
        self,
        dsn: str,
        callback: Callable[[frozenset[str]], None],
        *,
        connect_timeout_s: float = 3.0,
        check_interval_s: float = 30.0,
        application_name: str = "jq-listener",
    ) -> None:
        """``callback`` runs on the loop; it must not block."""
        super().__init__("listener", interval_s=check_interval_s)
        self._application_name = application_name
        self._dsn = dsn
        self._callback = callback
        self._connect_timeout_s = connect_timeout_s
        self._connection: Connection | None = None

    @property
    def healthy(self) -> bool:
        """True while a connection listens."""
        return self._connection is not None and not self._connection.is_closed()

    async def turn(self) -> None:
        """Connect when there is no connection, else prove that the peer still answers.

        A half-open socket never says that it is dead; only a question without an answer does.
        """
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
            self._callback(frozenset())
            return
        try:
            with translated():
                await self._connection.fetchval(_CHECK, timeout=self._connect_timeout_s)
        except BaseException:
            self._connection.terminate()
            raise

    async def teardown(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _connect(self) -> Connection:
        connection = await connect(
            self._dsn,
            connect_timeout_s=self._connect_timeout_s,
            application_name=self._application_name,
        )
        try:
            with translated():
                connection.add_termination_listener(lambda _: self.wake())
                await connection.add_listener(CHANNEL, self._heard)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        self._callback(frozenset(str(payload).split(",")))
