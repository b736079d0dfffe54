"""A keeper process: renews a worker's leases where no handler can starve it (R-4.4).

``python -m MODULE PID`` is started by the worker PID, before anything else, with a socket as its
stdin; MODULE calls ``run_keeper`` and says how the leases are reached. A thread would not do: one
regular expression that holds the interpreter for ten seconds stops every thread of its process. It
ends with its worker: by the end of its stdin, and on Linux by the parent-death signal.
It ignores the signals by which people end workers, because a worker that drains still needs its
leases.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from jobqueue.lease.backing import Backing
from jobqueue.lease.book import Book
from jobqueue.lease.duties import CancelWatch, Presence, Renewer, StallWatch, TrustWatch
from jobqueue.lease.messages import (
    Ask,
    Beat,
    Begin,
    Deadline,
    Decoder,
    Draining,
    Drop,
    Here,
    Hold,
    Logged,
    Message,
    Moved,
    encode,
    read_some,
)
from jobqueue.runtime.collector import calm_collector
from jobqueue.runtime.log_lines import Throttle, exception_of, message_of, own_context
from jobqueue.runtime.log_values import plain
from jobqueue.runtime.parent import end_with_parent
from jobqueue.runtime.service import Group, Service
from jobqueue.runtime.strays import catch_strays
from jobqueue.store.signals import JOBS_MOVED, Move

_STOP_S = 1.0
_UNHEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Pipe:
    """The way to the worker. Never blocks: a worker that does not read must not stop renewals."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def tell(self, message: Message) -> None:
        """Send one message; nothing happens when the worker is gone."""
        if not self._writer.is_closing():
            self._writer.write(encode(message))


class PipeHandler(logging.Handler):
    """Sends log lines to the worker, which writes them beside its own."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe
        self.addFilter(Throttle())

    def emit(self, record: logging.LogRecord) -> None:
        """Send one line."""
        context = {key: plain(value) for key, value in own_context(record).items()}
        line = Logged(
            record.name, record.levelno, message_of(record), context, exception_of(record)
        )
        self._pipe.tell(line)


class KeeperProcess:
    """All duties for one worker, from its first message to the end of its pipe."""

    def __init__(self, begin: Begin, pipe: Pipe, parent: int, backing: Backing) -> None:
        settings = begin.settings
        self.book = Book(settings)
        self.presence = Presence(
            backing,
            begin.facts,
            pipe.tell,
            interval_s=settings.heartbeat_interval_s,
            worker=begin.worker,
            draining=begin.draining,
        )
        self._backing = backing
        self._tell = pipe.tell
        self.renewer = Renewer(backing, self.book, self.presence, settings, pipe.tell)
        self.stall = StallWatch(parent, settings, self.worker_stands_still)
        self._duties: tuple[Service, ...] = (
            self.presence,
            self.renewer,
            CancelWatch(backing, self.book, self.presence, pipe.tell),
            TrustWatch(self.book, settings, pipe.tell),
            self.stall,
        )

    def duties(self) -> tuple[Service, ...]:
        """Return the loops of this keeper."""
        return self._duties

    def worker_stands_still(self) -> None:
        """Hear that the worker has not answered for a while: nothing to do here."""

    async def serve(self, reader: asyncio.StreamReader, decoder: Decoder) -> None:
        """Work until the worker's end of the pipe closes."""
        duties = Group(self.duties())
        await duties.start_all()
        try:
            while data := await read_some(reader):
                for message in decoder.feed(data):
                    self.hear(message)
        finally:
            await duties.stop_all(_STOP_S)
            await self._backing.close()

    def hear(self, message: Message) -> None:
        """Do what the worker asks. Words of a newer worker are ignored."""
        match message:
            case Beat():
                self.stall.beat()
            case Ask():
                self._tell(Here())
            case Hold(leases, proven_at):
                self.book.add(leases, proven_at)
            case Drop(leases):
                self.book.drop(leases)
            case Deadline(lease, at):
                self.book.set_deadline(lease, at)
            case Draining():
                self.presence.draining = True
                self.presence.wake()


MakeKeeper: TypeAlias = Callable[[Begin, Pipe, int], KeeperProcess]
"""Builds a keeper from its first message; called on the running loop."""


def _pass_on(pipe: Pipe, moves: Mapping[Move, int]) -> None:
    """Let the worker, whose metrics are read, count what its keeper wrote."""
    for move, count in moves.items():
        pipe.tell(Moved(move.queue, move.status, move.reason, count))


async def _serve(parent: int, make: MakeKeeper) -> None:
    """Serve the worker at the other end of stdin."""
    worker = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    reader, writer = await asyncio.open_unix_connection(sock=worker)
    pipe = Pipe(writer)
    logging.getLogger().handlers[:] = [PipeHandler(pipe)]
    logging.captureWarnings(True)
    catch_strays()
    JOBS_MOVED.subscribe(partial(_pass_on, pipe))
    decoder, begin = Decoder(), None
    waiting: list[Message] = []
    while begin is None and (data := await read_some(reader)):
        waiting += decoder.feed(data)
        begin = waiting[0] if waiting else None
    if not isinstance(begin, Begin):
        return
    keeper = make(begin, pipe, parent)
    for message in waiting[1:]:
        keeper.hear(message)
    await keeper.serve(reader, decoder)


def run_keeper(make: MakeKeeper) -> None:
    """Be a keeper until the worker is gone. The main of a keeper's module."""
    parent = int(sys.argv[1])
    end_with_parent(parent)
    for number in _UNHEEDED:
        signal.signal(number, signal.SIG_IGN)
    calm_collector()
    asyncio.run(_serve(parent, make))
