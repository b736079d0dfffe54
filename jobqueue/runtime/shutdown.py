"""What the operating system asks of a program, as events on its loop (R-4.7, R-4.8)."""

import asyncio
import signal
from collections.abc import Coroutine
from types import TracebackType
from typing import Self

from jobqueue.runtime.ending import end
from jobqueue.runtime.log import get_logger
from jobqueue.runtime.service import Service

_WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_RETAKE_S = 1.0

_log = get_logger(__name__)


class ShutdownSignals:
    """SIGTERM or SIGINT asks for an end, a second one for a fast end; SIGUSR1 for a drain.

    Use as a context manager on the running loop of the main thread, first thing in a program: a
    signal that comes earlier, or after it, does what it did before.
    """

    def __init__(self) -> None:
        self.shutdown = asyncio.Event()
        self.hurry = asyncio.Event()
        self.drain = asyncio.Event()
        self._asked = False
        self._ours: dict[int, object] = {}

    def __enter__(self) -> Self:
        """Start to listen."""
        self._theirs = {number: signal.getsignal(number) for number in _WATCHED}
        self._listen()
        return self

    def retake(self) -> bool:
        """Listen again where others took a signal; tell whether somebody had."""
        taken = [number for number, ours in self._ours.items() if signal.getsignal(number) != ours]
        if taken:
            self._listen()
        return bool(taken)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._asked_to_end)
        loop.add_signal_handler(signal.SIGINT, self._asked_to_end)
        loop.add_signal_handler(signal.SIGUSR1, self.drain.set)
        self._ours = {number: signal.getsignal(number) for number in _WATCHED}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back to who had them."""
        loop = asyncio.get_running_loop()
        for number, theirs in self._theirs.items():
            loop.remove_signal_handler(number)
            if theirs is not None:  # who listens from C code cannot be told again
                signal.signal(number, theirs)

    def _asked_to_end(self) -> None:
        # Where an operator's command has set ``shutdown``, this is still the first signal.
        (self.hurry if self._asked else self.shutdown).set()
        self._asked = True


class SignalWatch(Service):
    """Takes signals back from code that runs among ours and took them: each means to end us."""

    def __init__(self, signals: ShutdownSignals) -> None:
        super().__init__("signals", interval_s=_RETAKE_S)
        self._signals = signals

    async def turn(self) -> None:
        """Look once."""
        if self._signals.retake():
            _log.warning("a handler took a signal that ends the worker; it is taken back")


async def finishes_before(
    event: asyncio.Event, work: Coroutine[object, object, None], timeout_s: float | None = None
) -> bool:
    """Do ``work`` until it is done, until ``event``, or for ``timeout_s`` seconds.

    Returns True when it finished, False when it was cancelled; what it then cleans up is waited
    for, once. Raises what it raises.
    """
    task = asyncio.create_task(work)
    try:
        return await _first(task, event, timeout_s)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ends_before(
    event: asyncio.Event, work: Coroutine[object, object, None], timeout_s: float
) -> bool:
    """Do the same, but let no clean-up hold up the end of the program."""
    task = asyncio.create_task(work)
    try:
        return await _first(task, event, timeout_s)
    finally:
        await end(task)


async def _first(task: asyncio.Task[None], event: asyncio.Event, timeout_s: float | None) -> bool:
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return task.done()
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
