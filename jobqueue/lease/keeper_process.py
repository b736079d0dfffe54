"""The keeper process: renews a worker's leases where no handler can starve it (R-4.4).

``python -m jobqueue.lease.keeper_process PID`` is started by the worker PID, before anything
else, with pipes on stdin and stdout. A thread would not do: one regular expression that holds the
interpreter for ten seconds stops every thread of its process. It ends with its worker: by the
end of its stdin, and on Linux by the parent-death signal. It ignores the signals by which people
end workers, because a worker that drains still needs its leases.
"""

import asyncio
import logging
import signal
import sys

from jobqueue.lease.book import Book
from jobqueue.lease.duties import (
    CLAIM_FLIGHT_S,
    CancelWatch,
    Presence,
    Reconciler,
    Renewer,
    StallWatch,
    TrustWatch,
)
from jobqueue.lease.hot import HotConnection
from jobqueue.lease.messages import (
    Beat,
    Begin,
    Deadline,
    Decoder,
    Disown,
    Draining,
    Drop,
    Hold,
    Logged,
    Message,
    Reconcile,
    encode,
)
from jobqueue.runtime.parent import end_with_parent
from jobqueue.runtime.service import Group

_CHUNK = 65_536
_STOP_S = 1.0
_UNHEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Pipe(asyncio.Protocol):
    """The way to the worker. Never blocks: a worker that does not read must not stop renewals."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def tell(self, message: Message) -> None:
        """Send one message; nothing happens when the worker is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))


class PipeHandler(logging.Handler):
    """Sends log lines to the worker, which writes them beside its own."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        """Send one line; the trace of an error becomes its cause in one line."""
        context = dict(getattr(record, "context", None) or {})
        if record.exc_info and record.exc_info[1] is not None:
            context["cause"] = _cause(record.exc_info[1])
        self._pipe.tell(Logged(record.levelno, record.getMessage(), context))


def _cause(error: BaseException) -> str:
    """Our errors speak to callers; what an operator can act on is what the driver said."""
    said = error.__cause__
    return f"{error!r}: {said!r}" if said is not None else repr(error)


class KeeperProcess:
    """All duties for one worker, from its first message to the end of its pipe."""

    def __init__(self, begin: Begin, pipe: Pipe, parent: int) -> None:
        settings = begin.settings
        self._book = Book(settings)
        hot = HotConnection(
            begin.dsn,
            name="jq-keeper",
            timeout_s=settings.statement_timeout_s,
            connect_timeout_s=settings.connect_timeout_s,
            pgbouncer=settings.pgbouncer,
            on_reconnect=self._reconcile_soon,
        )
        self._hot = hot
        self._presence = Presence(
            hot,
            begin.facts,
            pipe.tell,
            interval_s=settings.heartbeat_interval_s,
            worker=begin.worker,
            draining=begin.draining,
        )
        self._reconciler = Reconciler(hot, self._book, self._presence, pipe.tell)
        self._stall = StallWatch(parent, settings.stall_limit_s)
        self._duties = Group(
            (
                self._presence,
                Renewer(hot, self._book, self._presence, settings, pipe.tell),
                CancelWatch(hot, self._book, pipe.tell),
                TrustWatch(self._book, settings, pipe.tell),
                self._reconciler,
                self._stall,
            )
        )
        self._handing_back: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, decoder: Decoder) -> None:
        """Work until the worker's end of the pipe closes."""
        await self._duties.start_all()
        try:
            while data := await reader.read(_CHUNK):
                for message in decoder.feed(data):
                    self.hear(message)
        finally:
            await self._duties.stop_all(_STOP_S)
            await self._hot.close()

    def hear(self, message: Message) -> None:
        """Do what the worker asks. Words of a newer worker are ignored."""
        match message:
            case Beat():
                self._stall.beat()
            case Hold(leases, proven_at):
                self._book.add(leases, proven_at)
            case Drop(leases):
                self._book.drop(leases)
            case Deadline(lease, at):
                self._book.set_deadline(lease, at)
            case Draining():
                self._presence.draining = True
                self._presence.wake()
            case Reconcile():
                self._reconcile_soon()
            case Disown(leases):
                task = asyncio.create_task(self._reconciler.hand_back(leases))
                self._handing_back.add(task)
                task.add_done_callback(self._handed_back)

    def _handed_back(self, task: asyncio.Task[None]) -> None:
        """After a failure the rows are still there: the next turn finds them again."""
        self._handing_back.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._reconcile_soon()

    def _reconcile_soon(self) -> None:
        """Look when the claim that may have been cut off is old enough to be seen."""
        loop = asyncio.get_running_loop()
        loop.call_later(CLAIM_FLIGHT_S + 1.0, self._reconciler.wake)


async def serve(parent: int) -> None:
    """Serve the worker at the other end of stdin and stdout."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    _, pipe = await loop.connect_write_pipe(Pipe, sys.stdout.buffer)
    logging.getLogger().handlers[:] = [PipeHandler(pipe)]
    decoder, begin = Decoder(), None
    waiting: list[Message] = []
    while begin is None and (data := await reader.read(_CHUNK)):
        waiting += decoder.feed(data)
        begin = waiting[0] if waiting else None
    if not isinstance(begin, Begin):
        return
    keeper = KeeperProcess(begin, pipe, parent)
    for message in waiting[1:]:
        keeper.hear(message)
    await keeper.serve(reader, decoder)


def main() -> None:
    """Run until the worker is gone."""
    parent = int(sys.argv[1])
    end_with_parent(parent)
    for number in _UNHEEDED:
        signal.signal(number, signal.SIG_IGN)
    asyncio.run(serve(parent))


if __name__ == "__main__":
    main()
