"""Handler processes: started before they are needed, used for many jobs, replaced when they die.

Started by exec, never by fork: a fork would share the worker's database sockets.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from subprocess import DEVNULL
from typing import Any

from jobqueue.domain.limits import Limits
from jobqueue.runtime.grpc_environment import environment_given
from jobqueue.runtime.log import process_context
from jobqueue.runtime.log_lines import logging_setup
from jobqueue.runtime.tasks import start_detached
from jobqueue.worker.frames import Frame, receive
from jobqueue.worker.groups import ProcessGroup, exit_words
from jobqueue.worker.guard import Guard
from jobqueue.worker.signals import CHILD_DIED, ChildDied

START_LIMIT_S = 60.0
"""Importing the handlers may take this long."""

CHILD = "jobqueue.worker.child"
"""The program of a handler process."""

_EXIT_LIMIT_S = 1.0


class ChildFailed(Exception):
    """A handler process could not start, or died; the message says how."""


@dataclass(frozen=True, slots=True)
class ChildSetup:
    """What every child of this worker is told first."""

    modules: tuple[str, ...]
    limits: Limits
    program: str = CHILD

    def frame(self) -> Frame:
        """Return it as a message; children search for modules and log as the worker does."""
        log = logging_setup()
        head = {
            "modules": self.modules,
            "limits": asdict(self.limits),
            "path": sys.path,
            "log": asdict(log) if log else None,
            "process": process_context(),
        }
        return Frame(head)


class Child:
    """One handler process. Runs one job at a time."""

    def __init__(
        self, group: ProcessGroup, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.group = group
        self._reader = reader
        self._writer = writer
        self._asked = 0
        group.on_exit(self._hang_up)

    @classmethod
    async def start(cls, guard: Guard, setup: ChildSetup) -> "Child":
        """Start one and wait until its handlers are imported. Raises ChildFailed."""
        ours, theirs = _pair()
        try:
            argv = [sys.executable, "-m", setup.program]
            argv += [str(theirs.fileno()), str(os.getpid())]
            streams = (DEVNULL, None, None)
            group = ProcessGroup.spawn(
                argv, guard, streams=streams, env=environment_given(), keep_fds=[theirs.fileno()]
            )
        except OSError as error:
            ours.close()
            raise _unstarted(error) from error
        finally:
            theirs.close()
        try:
            child = cls(group, *await asyncio.open_unix_connection(sock=ours))
        except BaseException:
            await group.end()
            raise
        await child._greet(setup)
        return child

    async def ask(self, order: Frame) -> Frame:
        """Send one job, return the answer.

        Raises ChildFailed when the process dies over it, or says something else; then end it.
        """
        self._asked += 1
        try:
            self._writer.write(order.numbered(self._asked).pack())
            return await receive(self._reader, self._asked)
        except (EOFError, OSError) as error:
            raise ChildFailed(f"handler process {exit_words(await self._death())}") from error
        except (ValueError, RecursionError) as error:
            raise ChildFailed("handler process broke the connection to its worker") from error

    async def end(self, patience: Coroutine[Any, Any, object] | None = None) -> None:
        """End the process and everything it started; see ``ProcessGroup.end``."""
        try:
            await self.group.end(patience)
        finally:
            self._writer.close()  # not before: its end would be the process's, and hide its kin

    async def _greet(self, setup: ChildSetup) -> None:
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await self._get_ready(setup)
        except TimeoutError as error:
            await self.end()
            raise ChildFailed("a handler process did not get ready in time") from error
        except BaseException:
            await self.end()
            raise

    async def _get_ready(self, setup: ChildSetup) -> None:
        head = (await self.ask(setup.frame())).head
        if not head["ready"]:
            raise ChildFailed(f"handlers cannot be imported: {head['error']}")

    def _hang_up(self) -> None:
        """Hear a dead process to its end, but no longer: a copy of it may keep the socket open."""
        asyncio.get_running_loop().call_later(_EXIT_LIMIT_S, self._writer.transport.abort)

    async def _death(self) -> int:
        """Return the exit code of a process whose socket closed; end one that goes on."""
        try:
            async with asyncio.timeout(_EXIT_LIMIT_S):
                code = await self.group.exited()
        except TimeoutError:
            code = await self.group.end()
        CHILD_DIED.emit(ChildDied(self.group.pid, exit_words(code)))
        return code


def _pair() -> tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair()
    except OSError as error:
        raise _unstarted(error) from error


def _unstarted(error: OSError) -> ChildFailed:
    return ChildFailed(f"a handler process cannot be started: {error}")


class Pool:
    """Ready children. Its users bound how many are out; ``ready`` are kept waiting."""

    def __init__(self, setup: ChildSetup, guard: Guard, ready: int) -> None:
        self._setup = setup
        self._guard = guard
        self._ready = ready
        self._idle: list[Child] = []
        self._out = 0
        self._refills: set[asyncio.Task[None]] = set()
        self._closed = False

    async def open(self) -> None:
        """Start the first children. Raises ChildFailed when they cannot be started."""
        self._idle += await asyncio.gather(*(self._start() for _ in range(self._ready)))

    async def take(self) -> Child:
        """Return a live child for one job; give it back or discard it. Raises ChildFailed."""
        self._out += 1
        try:
            while self._idle:
                child = self._idle.pop()
                if child.group.alive:
                    return child
                await child.end()
            return await self._start()
        except BaseException:
            self._out -= 1
            raise

    def give(self, child: Child) -> None:
        """Take back a child that is fit for another job."""
        self._out -= 1
        self._idle.append(child)

    async def discard(self, child: Child, patience: Coroutine[Any, Any, object] | None) -> None:
        """End a child that is out, and start another one for it."""
        self._refill()
        try:
            await child.end(patience)
        finally:
            self._out -= 1

    async def close(self) -> None:
        """End all idle children at once. Those that are out are their users' business."""
        self._closed = True
        for refill in self._refills:
            refill.cancel()
        await asyncio.gather(*self._refills, return_exceptions=True)
        idle, self._idle = self._idle, []
        await asyncio.gather(*(child.end() for child in idle))

    async def _start(self) -> Child:
        return await Child.start(self._guard, self._setup)

    def _refill(self) -> None:
        # The one that dies is still counted as out.
        if self._closed or len(self._idle) + len(self._refills) + self._out > self._ready:
            return
        refill = start_detached(self._add())
        self._refills.add(refill)
        refill.add_done_callback(self._refills.discard)

    async def _add(self) -> None:
        # A failure shows again, with a job to report it, when take() starts one itself.
        with contextlib.suppress(ChildFailed):
            self._idle.append(await self._start())
