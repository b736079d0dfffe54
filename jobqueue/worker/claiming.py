"""The claim loop: as many jobs as there are free slots, no more, and few questions when idle."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.limits import Limits, safe_text
from jobqueue.domain.outcome import Cancelled, Failed, Released
from jobqueue.errors import DeadlineExceeded
from jobqueue.lease.interface import Leases
from jobqueue.runtime.ending import end
from jobqueue.runtime.service import Service
from jobqueue.worker.endings import describe
from jobqueue.worker.executor import Executor
from jobqueue.worker.lanes import Lanes
from jobqueue.worker.reach import Reach
from jobqueue.worker.registry import Registry
from jobqueue.worker.signals import ATTEMPT_BROKE, AttemptBroke

FIRST_IDLE_S, LAST_IDLE_S = 0.05, 2.5
"""An empty-handed worker asks again after 50 ms, doubling to 2.5 s: less than 1 query/s."""

WAVES_FROM = 200
"""With so many slots or more jobs come in waves: one runs while others are claimed and settled."""

GOOD_WAVE, LARGEST_WAVE = 250, 2_000
"""Smaller ones cost the database much more a job, so they are halves of the slots. Larger ones cost
it a little less, so they are quarters."""

CLAIMS_UNDER_WAY = 2
"""While waves come full, so many claims are sent or wait for the connection: the second one leaves
with the answer of the first, before anybody has looked at that."""

CLAIM_LOOP = "claim"
BUSY_TURN_S = 1.0
_HINT_WAIT_S = 30.0
_IDLE_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Room:
    """How many jobs run at once, how many more are held ready, and for how long at most.

    ``stall_limit_s`` bounds the time between two turns: without turns the keeper kills us.
    """

    concurrency: int = 4
    prefetch: int = 0
    hold_s: float = 30.0
    stall_limit_s: float = 300.0

    @property
    def wave(self) -> int:
        """How many jobs a claim brings at most: some of many slots, else all."""
        if self.concurrency < WAVES_FROM:
            return self.concurrency
        half, quarter = self.concurrency // 2, self.concurrency // 4
        return min(max(quarter, min(half, GOOD_WAVE)), LARGEST_WAVE)

    @property
    def turn_s(self) -> float:
        """The wait of a loop that has no room, or must not claim."""
        return min(BUSY_TURN_S, self.stall_limit_s / 4)

    @property
    def last_idle_s(self) -> float:
        """The longest wait of a loop that finds nothing."""
        return min(LAST_IDLE_S, self.stall_limit_s / 4)


@dataclass(frozen=True, slots=True)
class _Claim:
    """One claim under way: how many jobs it was sent for, and what brings them."""

    n: int
    jobs: asyncio.Task[list[LeasedJob]]


class Claiming(Service):
    """Fills free slots with RUNNING jobs and the prefetch with ASSIGNED ones.

    A slot is free again when the settlement of its job was answered: what is free is what the
    database said. So it never sees more leases of this worker than slots and prefetch, also when
    connections break or outcomes are refused. The one exception are leases that nobody knows to
    exist, of a claim whose answer was lost: nothing runs for them, and they are soon handed back.
    ``idle`` is set while no job is held.

    Transient errors are the Service's business: it backs off and tries for ever.
    """

    def __init__(self, leases: Leases, executor: Executor, registry: Registry, room: Room) -> None:
        super().__init__(CLAIM_LOOP, interval_s=room.turn_s, jitter=_IDLE_JITTER)
        self.idle = asyncio.Event()
        self.idle.set()
        self._leases = leases
        self._executor = executor
        executor.on_freed(self._free_slots)
        self._registry = registry
        self._room = room
        self._open = True
        self._drain_untold = False
        self._saturated = False
        self._reach = Reach(max(room.wave, room.prefetch))
        self._idle_s = FIRST_IDLE_S
        self._busy: dict[Lease, LeasedJob] = {}
        self._lanes = Lanes(self._execute)
        self._waiting: deque[tuple[float, LeasedJob]] = deque()
        self._under_way: deque[_Claim] = deque()

    async def turn(self) -> float | None:
        """Start what waits, then claim what there is room for."""
        self._leases.beat()
        if self._drain_untold:
            await self._leases.set_draining()
            self._drain_untold = False
        self._give_back_old()
        await self._start_waiting()
        return await self._claim() if self._open or self._under_way else None

    async def teardown(self) -> None:
        """Have what a claim under way brings handed back, or do it: it may have its answer."""
        while self._under_way:
            claim = self._under_way.popleft().jobs
            await end(claim)
            if claim.done() and not _failed(claim):
                for job in claim.result():
                    self._release(job, "claimed while the worker was closing")

    def hint(self) -> None:
        """There may be work: look now instead of at the end of an idle wait."""
        if not self._saturated:
            self._idle_s = FIRST_IDLE_S
            self.wake()

    def close(self) -> None:
        """Claim nothing from now on and hand back at once what has not started."""
        self._open = False
        self._leases.stop_claiming()
        while self._waiting:
            self._release(self._waiting.popleft()[1], "handed back unstarted")

    def drain(self) -> None:
        """Close, and have the worker shown as DRAINING."""
        self.close()
        self._drain_untold = True
        self.wake()

    def forget(self, lease: Lease) -> None:
        """Drop a job whose lease is gone and whose handler has not begun."""
        self._waiting = deque(item for item in self._waiting if item[1].lease != lease)
        if job := self._lanes.take_back(lease):
            self._free_slots([job])
        self._update_idle()

    def cancel(self, lease: Lease) -> None:
        """End a RUNNING job on request, if its handler has not begun."""
        if job := self._lanes.take_back(lease):
            self._executor.settle(job, Cancelled("stopped on request"))

    def release_unbegun(self) -> None:
        """Hand back RUNNING jobs whose handlers have not begun."""
        for job in self._lanes.take_all_back():
            self._release(job, "the worker was told to end")

    def abandon(self, job: LeasedJob) -> None:
        """Wait no longer for a job whose handler cannot be ended."""
        self._free_slots([job])

    async def _claim(self) -> float | None:
        if not self._under_way:
            if self._more_come_free():
                self._saturated = True
                return None
            self._send(min(self._free(), self._wave))
            if self._saturated:
                self._send_ahead()
        full = await self._received()
        if full and not self._under_way and self._free() <= 0:
            full = await self._fill_prefetch()
        self._saturated = full
        if self._under_way:
            return 0.0
        if not full:
            return self._next_idle()
        # While it was under way, as many may have come free as it brought.
        return 0.0 if self._free() > 0 and not self._more_come_free() else None

    def _send(self, n: int) -> None:
        if n > 0 and self._open:
            claim = asyncio.create_task(self._ask(n, running=True))
            self._under_way.append(_Claim(n, claim))

    def _send_ahead(self, coming: int = 0) -> None:
        """Have claims at hand for which there is room, each for a whole wave.

        ``coming`` jobs have come that are not counted yet.
        """
        while (
            self._open
            and len(self._under_way) < CLAIMS_UNDER_WAY
            and self._free() - coming >= self._wave
        ):
            self._send(self._wave)

    async def _ask(self, n: int, *, running: bool) -> list[LeasedJob]:
        """Claim, and learn how many jobs can be had in time."""
        try:
            jobs = await self._leases.claim(n, running=running)
        except DeadlineExceeded:
            self._reach.was_late(n)
            raise
        self._reach.brought(len(jobs))
        return jobs

    @property
    def _wave(self) -> int:
        return min(self._room.wave, self._reach.most)

    async def _received(self) -> bool:
        """Take what the oldest claim brings; return whether it is as much as asked for.

        The next ones go out before these jobs are gone through and run: the database works
        meanwhile.
        """
        if not self._under_way:
            return True
        claim = self._under_way[0]
        try:
            jobs = await claim.jobs
        except BaseException:
            if _failed(claim.jobs):
                self._under_way.popleft()
                self._saturated = False  # no second claim until the database answers again
            raise  # else we are cancelled, and the teardown sees to what it brings
        self._under_way.popleft()
        full = len(jobs) >= claim.n
        if full:
            self._send_ahead(len(jobs))
        if jobs:
            self._idle_s = FIRST_IDLE_S
        self._take(jobs)
        return full

    async def _fill_prefetch(self) -> bool:
        """Claim jobs to hold ready; return whether there were as many as were asked for."""
        n = min(self._room.prefetch - len(self._waiting), self._reach.most)
        if n <= 0 or not self._open:
            return True
        jobs = await self._ask(n, running=False)
        self._take(jobs)
        return len(jobs) >= n

    def _next_idle(self) -> float:
        seconds = min(self._idle_s, self._room.last_idle_s)
        self._idle_s = min(2 * self._idle_s, LAST_IDLE_S)
        return seconds

    def _free(self) -> int:
        asked = sum(claim.n for claim in self._under_way)
        return self._room.concurrency - len(self._busy) - asked

    def _more_come_free(self) -> bool:
        """Tell whether more slots may be about to come free than are free.

        Those of jobs that are being settled, or are just to begin and may be done at once. Then
        the claim waits for them: one of many jobs costs little more than one of few, and a batch
        that was torn once would else never be whole again.
        """
        free = self._free()
        return free < self._wave and len(self._busy) - self._executor.running > free

    def _take(self, jobs: Iterable[LeasedJob]) -> None:
        starting: list[LeasedJob] = []
        for job in jobs:
            if not self._open:
                self._release(job, "claimed while the worker was closing")
            elif job.running or self._registry.resolve(job.queue, job.type) is None:
                self._busy[job.lease] = job
                starting.append(job)
            else:
                self._waiting.append((time.monotonic(), job))
        self._lanes.start(starting)
        self._update_idle()

    async def _start_waiting(self) -> None:
        """Move prefetched jobs into free slots; those refused at the start make room for others."""
        while batch := [job for _, job in list(self._waiting)[: max(self._free(), 0)]]:
            await self._start(batch)

    async def _start(self, batch: Sequence[LeasedJob]) -> None:
        """Start what was waiting, all in one statement."""
        started = await self._leases.start([job.lease for job in batch])
        asked = {job.lease for job in batch}
        # News or a close may have emptied the queue meanwhile: what is gone from it is not ours.
        held = {job.lease for _, job in self._waiting}
        self._waiting = deque(item for item in self._waiting if item[1].lease not in asked)
        self._take(job.started() for job in batch if job.lease in started & held)

    def _give_back_old(self) -> None:
        """Hand back what waits too long: the reaper would fail it, others may be free."""
        limit_s = min(self._room.hold_s, self._leases.hold_limit_s)
        while self._waiting and time.monotonic() - self._waiting[0][0] > limit_s:
            self._release(self._waiting.popleft()[1], "no slot came free in time")

    def _release(self, job: LeasedJob, why: str) -> None:
        self._busy[job.lease] = job
        self.idle.clear()
        self._executor.settle(job, Released(why))

    async def _execute(self, job: LeasedJob, task: asyncio.Task[None]) -> None:
        if self._saturated and not self._lanes:
            self.wake()  # the last of those to begin: whatever they do, the claim need not wait
        try:
            await self._executor.execute(job, task)
        except Exception as error:  # noqa: BLE001 - a fault of ours costs this job, not those behind it
            ATTEMPT_BROKE.emit(AttemptBroke(job, error))
            # Its lease would run on, and its slot be taken, for as long as this worker lives.
            self._executor.settle(job, Failed(_broken(error)))
        except asyncio.CancelledError:
            self._free_slots([job])
            raise

    def _free_slots(self, jobs: Sequence[LeasedJob]) -> None:
        for job in jobs:
            self._busy.pop(job.lease, None)
        if not self._busy:
            self._update_idle()
        if self._saturated or self._waiting:
            self.wake()

    def _update_idle(self) -> None:
        if not self._busy and not self._waiting:
            self.idle.set()
        else:
            self.idle.clear()


class Hints(Service):
    """Turns wake-up hints into early claims."""

    def __init__(self, leases: Leases, claiming: Claiming) -> None:
        super().__init__("hints", interval_s=0.0, bound_s=2 * _HINT_WAIT_S)
        self._leases = leases
        self._claiming = claiming

    async def turn(self) -> float | None:
        """Wait for one hint and pass it on."""
        if await self._leases.wait_for_work(_HINT_WAIT_S):
            self._claiming.hint()
        return 0.0


def _failed(claim: asyncio.Task[list[LeasedJob]]) -> bool:
    return claim.cancelled() or (claim.done() and claim.exception() is not None)


def _broken(error: Exception) -> str:
    return safe_text(f"the worker could not run it: {describe(error)}", Limits().error_bytes)
