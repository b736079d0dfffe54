"""The one background loop: start, stop, failure and back-off behave alike everywhere.

A subclass writes ``turn``: one bounded piece of work. The loop repeats it, survives its
exceptions, waits between turns, and can be woken. ``last_progress`` tells a health check that the
loop is alive: a failed attempt that is tried again is life too, so an outage of PostgreSQL never
looks like a hung process (R-7.4).
"""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from jobqueue.errors import DeadlineExceeded, Unavailable
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.runtime.ending import done_within, end
from jobqueue.runtime.log import Quiet, get_logger
from jobqueue.runtime.looks import Looks
from jobqueue.runtime.signals import Signal

FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.1, 2.5
"""The wait after a failure doubles up to the second, jitter included.

Work must go on 5 s after a database is back (R-4.12): one wait, and a connection that just misses
it, must fit into that."""

STOP_GRACE_S = 5.0
TEARDOWN_S = 1.0
"""What a loop gets to give back what it holds when the grace is used up."""
_BACKOFF_JITTER = 0.5

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """One turn of a loop is over; ``error`` is None when it went well."""

    service: str
    duration_s: float
    error: Exception | None


TURN_ENDED: Signal[TurnEnded] = Signal("turn_ended")


class Unfinished(Exception):
    """Raised by a turn that did what it could, and has told what it could not (``tell``).

    It has failed, and the next one comes after the usual wait all the same.
    """


_outages = Quiet()
"""An outage stops all loops of a process at once; the first to meet it tells of it for all."""

USUAL_LOOK_S = 0.1
"""What a busy machine makes of reading nothing: the end of a lease must not wait for that."""

STALE_BOUNDS = 3
"""A loop without progress for this many of its bounds is stuck (R-7.4)."""

_running: WeakValueDictionary[int, "Service"] = WeakValueDictionary()


def running_services() -> list["Service"]:
    """Return every loop of this process that runs now, by name: none can be forgotten."""
    # A copy in one step: metrics ask from another thread.
    found = [reference() for reference in _running.valuerefs()]
    return sorted(filter(None, found), key=lambda service: service.name)


class Service:
    """One supervised loop. Subclass it and write ``turn``.

    ``interval_s`` is the usual wait between turns, spread by ± ``jitter`` of itself so that
    replicas do not march in step. ``bound_s`` is how long a turn and the wait after it may take
    in the worst case; a health check turns red after three times that without progress.
    """

    def __init__(
        self,
        name: str,
        *,
        interval_s: float,
        jitter: float = 0.1,
        bound_s: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = name
        self.interval_s = interval_s
        self.bound_s = bound_s if bound_s is not None else max(2 * interval_s, 10.0)
        self.failures = 0  # in a row
        self.failures_total = 0
        self.last_progress = clock.monotonic()
        self._jitter = jitter
        self._looks = Looks(clock)
        self._clock = clock
        self._quiet = Quiet(clock=clock)
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def turn(self) -> float | None:
        """Do one bounded piece of work.

        Returns the seconds to wait before the next: None for the usual interval, 0 for at once.
        """
        raise NotImplementedError

    async def setup(self) -> None:
        """Get what the loop needs; called by ``start``, which raises what this raises."""

    async def teardown(self) -> None:
        """Give it back; called once after the last turn."""

    def sparing(self, took_s: float) -> float:
        """Return the wait after a look at what dead rows may fill, which took so many seconds.

        It is the usual interval, or more where looks took more than 0.1 s twice in a row: up to
        10 s, and never more than ``bound_s``. A turn that did more than look does not ask.
        """
        self._looks.note(took_s, usual_s=USUAL_LOOK_S)
        return min(max(self.interval_s, self._looks.wait_s), self.bound_s)

    @property
    def running(self) -> bool:
        """True from the end of ``start`` to the end of ``stop``."""
        return self._task is not None

    @property
    def stuck_s(self) -> float | None:
        """Seconds without progress when they are too many, else None."""
        idle_s = self._clock.monotonic() - self.last_progress
        return idle_s if idle_s > STALE_BOUNDS * self.bound_s else None

    async def start(self) -> None:
        """Set up and begin the first turn. Starting twice is a fault of the caller."""
        if self._task is not None:
            raise RuntimeError(f"service {self.name} runs already")
        await self.setup()
        self._stopping.clear()
        self.last_progress = self._clock.monotonic()
        self._task = asyncio.create_task(self._run(), name=self.name)
        _running[id(self)] = self

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Let the current turn finish within ``grace_s``, else cancel it; then tear down.

        The teardown gets what is left of the grace, and a second at least: what it could not
        give back by then must end by itself.
        """
        task, self._task = self._task, None
        if task is None:
            return
        _running.pop(id(self), None)
        self._stopping.set()
        self._woken.set()
        deadline = asyncio.get_running_loop().time() + grace_s
        try:
            await asyncio.wait({task}, timeout=grace_s)
        finally:
            await end(task)
            await self._tear_down(deadline - asyncio.get_running_loop().time())

    async def _tear_down(self, left_s: float) -> None:
        task = asyncio.create_task(self.teardown(), name=f"teardown of {self.name}")
        if not await done_within(task, max(left_s, TEARDOWN_S)):
            _log.warning("a loop could not give back what it held in time", loop=self.name)

    def wake(self) -> None:
        """Begin the next turn now, or right after the one that runs.

        A loop that backs off after a failure is not hurried: hints do not heal a database.
        """
        self._woken.set()

    def tell(self, error: Exception, **where: str) -> None:
        """Log that a turn failed, or a part of it; the same again is told every 10 s at most."""
        cause = f"{type(error).__name__}: {error}"
        if isinstance(error, Unavailable | DeadlineExceeded | TimeoutError):
            # An outage, or a peer that is slow, is news and no fault of ours: no stack trace.
            if _outages.admits(cause):
                _log.warning(
                    "cannot work now, trying again", loop=self.name, cause=str(error), **where
                )
        elif self._quiet.admits(" ".join((cause, *where.values()))):
            _log.error("a turn failed, trying again", loop=self.name, error=error, **where)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            await self._pause(await self._guarded_turn())

    async def _guarded_turn(self) -> float:
        begun = self._clock.monotonic()
        if self.failures:
            self.last_progress = begun
        try:
            wait = await self.turn()
        except asyncio.CancelledError as error:
            if _cancelled_from_outside():
                raise
            return self._failed(begun, RuntimeError(f"cancelled from within: {error!r}"))
        except Exception as error:  # noqa: BLE001 - the one place where a loop survives a fault
            return self._failed(begun, error)
        self.failures = 0
        self.last_progress = self._clock.monotonic()
        TURN_ENDED.emit(TurnEnded(self.name, self.last_progress - begun, None))
        return self._rest(wait)

    def _failed(self, begun: float, error: Exception) -> float:
        self.failures += 1
        self.failures_total += 1
        self._looks.forget()
        told = isinstance(error, Unfinished)
        if not told:
            self.tell(error)
        TURN_ENDED.emit(TurnEnded(self.name, self._clock.monotonic() - begun, error))
        return self._rest(None) if told else self._backoff()

    def _rest(self, wait: float | None) -> float:
        seconds = self.interval_s if wait is None else wait
        return _spread(min(seconds, self.bound_s), self._jitter)

    def _backoff(self) -> float:
        # The exponent is clamped: a long outage must not overflow.
        ceiling = min(FIRST_BACKOFF_S * 2.0 ** min(self.failures - 1, 16), LAST_BACKOFF_S)
        return ceiling * random.uniform(1 - _BACKOFF_JITTER, 1)  # noqa: S311 - no secret

    async def _pause(self, seconds: float) -> None:
        """Wait, but not through a stop; nor, unless the last turn failed, through a wake."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        interrupt = self._stopping if self.failures else self._woken
        try:
            async with asyncio.timeout(seconds):
                await interrupt.wait()
        except TimeoutError:
            return


class Group:
    """Services that live together: started in order, stopped in the reverse order."""

    def __init__(self, services: Iterable[Service]) -> None:
        self.services = tuple(services)

    async def start_all(self) -> None:
        """Start each; when one fails, stop those already started and raise its error."""
        try:
            for service in self.services:
                await service.start()
        except BaseException:
            await self.stop_all()
            raise

    async def stop_all(self, grace_s: float = STOP_GRACE_S) -> None:
        """Stop every running one within ``grace_s`` seconds together. A failed stop is logged.

        In reverse order, until the grace is used up; those that are left then end all at once.
        """
        deadline = asyncio.get_running_loop().time() + grace_s
        waiting = list(self.services)
        while waiting and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await _stop(waiting.pop(), left)
        await asyncio.gather(*(_stop(service, 0.0) for service in waiting))


async def _stop(service: Service, grace_s: float) -> None:
    try:
        await service.stop(grace_s)
    except Exception as error:  # noqa: BLE001 - the others must still be stopped
        _log.error("a loop did not stop cleanly", loop=service.name, error=error)


def _cancelled_from_outside() -> bool:
    """Tell our own cancellation from one that leaked out of the work of a turn."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _spread(seconds: float, jitter: float) -> float:
    return max(seconds, 0.0) * random.uniform(1 - jitter, 1 + jitter)  # noqa: S311 - no secret
