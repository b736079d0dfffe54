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
    Beat,
    Begin,
    Cancel,
    Command,
    Deadline,
    Decoder,
    Disown,
    Draining,
    Drop,
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
        if worker is not None:
            self._worker.set_result(worker)
        self._draining = False
        self._closing = False
        self._beat_at = -math.inf

    @property
    def pid(self) -> int | None:
        """The keeper process that runs now."""
        return self._link.pid if self._link else None

    async def registered(self, timeout_s: float) -> int:
        """Return the worker's number. Raises Unavailable when it has none within ``timeout_s``."""
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
        """Say that the worker's loop turned; most calls cost nothing."""
        now = time.monotonic()
        if now - self._beat_at >= min(self._settings.stall_limit_s / 20, 1.0):
            self._beat_at = now
            self._tell(Beat())

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
        try:
            async with asyncio.timeout(_LISTEN_S):
                data = await link.read()
        except TimeoutError:
            return 0.0
        if not data and not self._closing:
            raise RuntimeError(f"the keeper process ended with {await self._reap(link)}")
        for message in self._decoder.feed(data):
            self._hear(message)
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

    async def _spawn(self) -> KeeperLink:
        self._give_up_lapsed()
        self._decoder = Decoder()
        argv = [sys.executable, "-m", self._program, str(os.getpid())]
        self._link = await KeeperLink.open(argv)
        worker = self._worker.result() if self._worker.done() else None
        self._tell(Begin(self._source, self._settings, self._facts, worker, self._draining))
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

    def _give_up_lapsed(self) -> None:
        """Without a keeper nobody else does; this counts when none can be started for long."""
        now = time.monotonic()
        trusted = self._settings.trusted_until
        lapsed = [lease for lease, at in self._proven.items() if now >= trusted(at)]
        if lapsed:
            self._listening.lost(lapsed, "there was no keeper to renew it")

    def _hear(self, message: Message) -> None:
        match message:
            case Registered(worker):
                if not self._worker.done():
                    self._worker.set_result(worker)
            case Renewed(leases, sent_at):
                self._note_renewed(leases, sent_at)
            case Unknown(leases):
                if strangers := self._listening.disowned(leases):
                    self._tell(Disown(tuple(strangers)))
            case Moved() | Logged():
                _say_for(message)
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
