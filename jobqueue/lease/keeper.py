"""The worker's side of its keeper process: starts it, tells it, hears it, replaces it."""

import asyncio
import contextlib
import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.errors import Unavailable
from jobqueue.lease.keeper_link import KeeperLink
from jobqueue.lease.messages import (
    Ask,
    Beat,
    Begin,
    Cancel,
    Command,
    Deadline,
    Decoder,
    Disown,
    Draining,
    Drop,
    Here,
    Hold,
    Logged,
    Lost,
    Message,
    Moved,
    Reach,
    Reconcile,
    Registered,
    Renewed,
    Unknown,
    encode,
)
from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.signals import REACH_CHANGED, ReachChanged
from jobqueue.runtime.log import write_relayed
from jobqueue.runtime.service import STOP_GRACE_S, Service
from jobqueue.store.signals import tell_moved

CLAIMS_LIMIT_S = 30.0
"""The loop turns, but claims have not come round for so long: from here on it counts as still.

In an outage a round takes less, or little beside the stall limit.
"""

ASK_AFTER_S, ANSWER_LIMIT_S, START_LIMIT_S = 5.0, 5.0, 60.0
"""A keeper that says nothing for the first is asked whether it is there, and replaced when it says
nothing for the second more; up to its first word it has the third on top."""

_LISTEN_S = 1.0


class Listening(Protocol):
    """Who is told what the keeper says; all calls come on the event loop."""

    def renewed(self, jobs: Sequence[LeasedJob]) -> None:
        """These were renewed."""

    def lost(self, leases: Sequence[Lease], why: str) -> None:
        """These are no longer renewed; ``why`` is for people."""

    def cancelled(self, leases: Sequence[Lease]) -> None:
        """An operator wants these to end."""

    def commanded(self, command: WorkerCommand) -> None:
        """An operator wants the worker to do this."""

    def forgotten(self) -> None:
        """The worker was not known any more; it is registered under another number now."""

    def disowned(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Return those of ``leases`` that certainly nobody here holds or is about to hold."""


class Keeper(Service):
    """Holds leases through a child process. Raises nothing when that dies: it is replaced.

    The new one is told of every lease held and when each was last proven, so that a keeper that
    is killed costs no lease as long as the next one starts in time.
    """

    def __init__(
        self,
        program: str,
        source: str,
        settings: LeaseSettings,
        facts: WorkerFacts,
        listening: Listening,
        *,
        worker: int | None = None,
    ) -> None:
        """``program`` is the module to run, which knows how to reach ``source``.

        ``worker`` is the worker's number when it is registered already.
        """
        super().__init__("keeper", interval_s=_LISTEN_S)
        self._program = program
        self._source = source
        self._settings = settings
        self._facts = facts
        self._listening = listening
        self._held: dict[Lease, LeasedJob] = {}
        self._proven: dict[Lease, float] = {}
        self._deadlines: dict[Lease, float] = {}
        self._dropped: list[Lease] = []
        self._link: KeeperLink | None = None
        self._decoder = Decoder()
        self._worker: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._number = worker
        if worker is not None:
            self._worker.set_result(worker)
        self._draining = False
        self._closing = False
        self._beat_at = -math.inf
        self._claimed_at: float | None = None
        self._listen_s = min(_LISTEN_S, settings.stall_limit_s / 4, settings.lease_s / 20)
        self._ask_after_s = min(ASK_AFTER_S, settings.lease_s / 6)
        self._silent_s = 0.0
        self._asked = False

    @property
    def pid(self) -> int | None:
        """The keeper process that runs now."""
        return self._link.pid if self._link else None

    @property
    def number(self) -> int:
        """The number under which the worker is registered now; 0: it never was."""
        return self._number or 0

    async def registered(self, timeout_s: float) -> int:
        """Return its first number. Raises Unavailable when it has none within ``timeout_s``."""
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(self._worker)
        except TimeoutError as error:
            raise Unavailable("the worker could not be registered in time") from error

    def job(self, lease: Lease) -> LeasedJob | None:
        """Return the job held under ``lease``, None when it is not held."""
        return self._held.get(lease)

    def leases(self) -> list[Lease]:
        """Return all that are held."""
        return list(self._held)

    def hold(self, jobs: Iterable[LeasedJob], proven_at: float) -> None:
        """Renew the leases of ``jobs``, won by a statement sent at ``proven_at``."""
        new = {job.lease: job for job in jobs}
        if new:
            self._held.update(new)
            self._proven.update(dict.fromkeys(new, proven_at))
            self._tell(Hold(tuple(new), proven_at))

    def drop(self, lease: Lease) -> LeasedJob | None:
        """Stop renewing ``lease``; return its job, None when it was not held."""
        dropped = self.drop_all([lease])
        return dropped[0] if dropped else None

    def drop_all(self, leases: Iterable[Lease]) -> list[LeasedJob]:
        """Stop renewing these; return the jobs of those that were held.

        Drops of one turn of the loop travel together.
        """
        jobs: list[LeasedJob] = []
        for lease in leases:
            if job := self._held.pop(lease, None):
                del self._proven[lease]
                self._deadlines.pop(lease, None)
                jobs.append(job)
        if jobs and not self._dropped:
            asyncio.get_running_loop().call_soon(self._tell_dropped)
        self._dropped += [job.lease for job in jobs]
        return jobs

    def set_deadline(self, lease: Lease, seconds: float) -> None:
        """Do not renew ``lease`` after ``seconds`` from now."""
        if lease in self._held:
            at = self._deadlines[lease] = time.monotonic() + seconds
            self._tell(Deadline(lease, at))

    def beat(self) -> None:
        """Say that claims came round; most calls cost nothing."""
        self._claimed_at = time.monotonic()
        self._pulse(self._claimed_at)

    def drain(self) -> None:
        """Show the worker as DRAINING from now on."""
        self._draining = True
        self._tell(Draining())

    def reconcile(self) -> None:
        """Look soon for leases of claims whose answer was lost."""
        self._tell(Reconcile())

    async def turn(self) -> float | None:
        """Start the process when there is none; hear what it says."""
        if self._closing:
            return None
        link = self._link or await self._spawn()
        begun = time.monotonic()
        self._pulse(begun)
        data = await self._listen(link)
        if data is None:
            await self._note_silence(link, time.monotonic() - begun)
        elif data or self._closing:
            self._note_words(data)
        else:
            raise RuntimeError(f"the keeper process ended with {await self._reap(link)}")
        return 0.0

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End the process by the end of its input; kill it when that takes too long."""
        self._closing = True
        if self._link is not None:
            self._link.tell_to_end()
        await super().stop(grace_s)

    async def teardown(self) -> None:
        """Leave no process behind."""
        if self._link is not None:
            await self._reap(self._link)

    def _pulse(self, now: float) -> None:
        """Say that the worker's loop turned, unless its claims hang."""
        hang = self._claimed_at is not None and now - self._claimed_at >= CLAIMS_LIMIT_S
        if not hang and now - self._beat_at >= min(self._settings.stall_limit_s / 20, 1.0):
            self._beat_at = now
            self._tell(Beat())

    async def _listen(self, link: KeeperLink) -> bytes | None:
        """Return what it says next, nothing at its end, None when it is silent."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._listen_s):
                return await link.read()
        return None

    def _note_words(self, data: bytes) -> None:
        self._silent_s, self._asked = 0.0, False
        for message in self._decoder.feed(data):
            self._hear(message)

    async def _note_silence(self, link: KeeperLink, took_s: float) -> None:
        """Ask a keeper that is silent; end one that does not answer, and raise RuntimeError."""
        if took_s > self._listen_s + _LISTEN_S:
            return  # it is our loop that stood still: what was said meanwhile is heard next
        self._silent_s += took_s
        if self._asked:
            self._give_up_lapsed("its keeper does not answer")
        elif self._silent_s >= self._ask_after_s:
            self._asked = True
            self._tell(Ask())
        if self._silent_s >= self._ask_after_s + ANSWER_LIMIT_S:
            link.kill()
            await self._reap(link)
            raise RuntimeError("the keeper process did not answer, and was killed")

    async def _spawn(self) -> KeeperLink:
        self._give_up_lapsed("there was no keeper to renew it")
        self._decoder = Decoder()
        self._silent_s, self._asked = -START_LIMIT_S, True  # its start is a question, too
        argv = [sys.executable, "-m", self._program, str(os.getpid())]
        self._link = await KeeperLink.open(argv)
        begin = Begin(self._source, self._settings, self._facts, self._number, self._draining)
        self._tell(begin)
        for lease, proven_at in self._proven.items():
            self._tell(Hold((lease,), proven_at))
        for lease, at in self._deadlines.items():
            self._tell(Deadline(lease, at))
        return self._link

    async def _reap(self, link: KeeperLink) -> int | None:
        """Wait for its end, and return the exit code; None when it resists."""
        self._link = None
        link.tell_to_end()
        try:
            for _ in range(2):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LISTEN_S):
                        return await link.ended()
                link.kill()
            return None
        finally:
            link.close()

    def _give_up_lapsed(self, why: str) -> None:
        """Do it in place of a keeper: none can be started, or the one there is stands still."""
        now = time.monotonic()
        trusted = self._settings.trusted_until
        lapsed = [lease for lease, at in self._proven.items() if now >= trusted(at)]
        if lapsed:
            self._listening.lost(lapsed, why)

    def _hear(self, message: Message) -> None:
        match message:
            case Registered(worker):
                self._note_registered(worker)
            case Renewed(leases, sent_at):
                self._note_renewed(leases, sent_at)
            case Unknown(leases):
                if strangers := self._listening.disowned(leases):
                    self._tell(Disown(tuple(strangers)))
            case Moved() | Logged():
                _say_for(message)
            case Here():
                pass  # to be heard of was all
            case _:
                self._pass_on(message)

    def _pass_on(self, message: Message) -> None:
        match message:
            case Lost(leases, why):
                self._listening.lost(leases, why)
            case Cancel(leases):
                self._listening.cancelled(leases)
            case Command(command):
                self._listening.commanded(WorkerCommand(command))
            case Reach(trouble):
                REACH_CHANGED.emit(ReachChanged(trouble))

    def _note_registered(self, worker: int) -> None:
        known, self._number = self._number, worker
        if known is None:
            self._worker.set_result(worker)
        elif known != worker:
            self._listening.forgotten()

    def _note_renewed(self, leases: Sequence[Lease], sent_at: float) -> None:
        held = [lease for lease in leases if lease in self._held]
        self._proven.update(dict.fromkeys(held, sent_at))
        self._listening.renewed([self._held[lease] for lease in held])

    def _tell_dropped(self) -> None:
        dropped, self._dropped = self._dropped, []
        self._tell(Drop(tuple(dropped)))

    def _tell(self, message: Message) -> None:
        """Send one message without waiting; a keeper that is not there is told all when it is."""
        if self._link is not None:
            self._link.write(encode(message))


def _say_for(message: Moved | Logged) -> None:
    """Say here what the keeper has no ears for there."""
    match message:
        case Moved(queue, status, reason, count):
            tell_moved({queue: count}, JobStatus(status), Reason(reason))
        case Logged(logger, level, text, context, exception):
            write_relayed(logger, level, text, context, exception)
