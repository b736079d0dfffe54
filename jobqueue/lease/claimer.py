"""Takes jobs: which queues, in which order, how many (R-3.15, R-4.1)."""

from collections.abc import Collection, Sequence

from jobqueue.domain.lease import LeasedJob
from jobqueue.lease.frontier import Frontier
from jobqueue.lease.probes import ProbePlan
from jobqueue.lease.signals import QUEUES_MISSING
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.store.leases import Probe, claim_jobs, lock_queue
from jobqueue.store.pool import Connection, transaction
from jobqueue.store.queues import QueueServing, list_queue_serving

SERVING_AGE_S = 10.0
"""Weights, limits and pauses may be this old. The claim statement itself refuses paused queues
and queues with a limit, so stale facts cost time, never a promise."""

_FIRST_WAIT_S, _FULL_WAIT_S, _EMPTY_WAIT_S = 0.05, 2.5, 10.0


class LimitPace:
    """How often a queue with max_running is asked: each time costs a transaction of its own.

    A queue that had no room or no job is left alone for a while that doubles: up to 2.5 s when it
    was full, as a job that ends elsewhere makes room and nothing tells us; up to 10 s when it was
    empty, as a new job is announced. One that was passed over may have jobs: it waits too, as the
    others fill the slots, but no longer than they do. A hint, or an own job that ended, ends the
    wait; what comes while a claim is under way is newer than what that claim saw.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._waits: dict[str, float] = {}
        self._hurried: set[str] = set()
        self._passed_over: set[str] = set()

    def begin(self) -> None:
        """A claim begins; what it says of a queue that is hurried from now on does not count."""
        self._hurried.clear()

    def is_due(self, queue: str) -> bool:
        """Return whether to ask it now."""
        return self._clock.monotonic() >= self._due.get(queue, 0.0)

    def gave_nothing(self, queue: str, *, full: bool) -> None:
        """Wait longer before the next time."""
        if queue in self._hurried:
            return
        wait = self._waits.get(queue, _FIRST_WAIT_S)
        self._due[queue] = self._clock.monotonic() + wait
        self._waits[queue] = min(wait * 2, _FULL_WAIT_S if full else _EMPTY_WAIT_S)
        self._passed_over.discard(queue)

    def passed_over(self, queue: str) -> None:
        """Wait as for an empty one, but only until a claim leaves slots."""
        self.gave_nothing(queue, full=False)
        self._passed_over.add(queue)

    def slots_left(self) -> None:
        """A claim left slots: ask those that were passed over with the next one.

        One that has nothing then waits twice as long as before: what is always empty costs little.
        """
        for queue in self._passed_over:
            self._due.pop(queue, None)
        self._passed_over.clear()

    def hurry(self, queue: str) -> None:
        """Ask it with the next claim."""
        self._hurried.add(queue)
        self._passed_over.discard(queue)
        self._due.pop(queue, None)
        self._waits.pop(queue, None)


class Claimer:
    """Claims for one worker process. Not concurrent: one claim at a time."""

    def __init__(
        self,
        queues: Sequence[str],
        plan: ProbePlan,
        lease_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._names = tuple(dict.fromkeys(queues))
        self._plan = plan
        self._lease_s = lease_s
        self._serving: list[QueueServing] = []
        self._serving_until = 0.0
        self._rotation = 0
        self._pace = LimitPace(clock)
        self._frontier = Frontier(clock)

    def hint(self, queues: Collection[str]) -> bool:
        """Take note that these queues may have jobs; return whether we serve one of them.

        No names: hints may have been missed, so any of ours may.
        """
        ours = set(queues or self._names).intersection(self._names)
        usable = {queue.name for queue in self._serving if not queue.paused}
        if ours - usable:  # it was paused or not there when we looked last
            self._serving_until = 0.0
        for queue in ours:
            self._pace.hurry(queue)
        return bool(ours)

    def job_ended(self, queue: str) -> None:
        """Take note that a job of ours no longer counts against its queue's limit."""
        self._pace.hurry(queue)

    async def claim(self, db: Connection, worker: int, n: int, *, running: bool) -> list[LeasedJob]:
        """Take up to ``n`` jobs in one statement; in one transaction if limited queues are due."""
        try:
            jobs = await self._claim(db, worker, n, running=running)
        except BaseException:
            self._frontier.forget()  # what was taken may be back
            raise
        if len(jobs) < n:
            self._pace.slots_left()
        return jobs

    async def _claim(
        self, db: Connection, worker: int, n: int, *, running: bool
    ) -> list[LeasedJob]:
        self._pace.begin()
        await self._refresh(db)
        usable = [q for q in self._serving if not q.limited or self._pace.is_due(q.name)]
        probes = self._plan.probes(usable, n, self._rotation)
        self._rotation += 1
        if not probes:
            return []
        call = _Call(
            db,
            worker,
            self._plan.types,
            self._lease_s,
            self._clock,
            self._frontier,
            running=running,
        )
        limited = sorted(q.name for q in usable if q.limited and not q.paused)
        if not limited:
            return await call.take(probes, n)
        async with transaction(db):
            rooms = {name: await _room(db, name) for name in limited}
            jobs = await call.take_within(probes, n, dict(rooms))
        self._note(rooms, jobs, full=len(jobs) >= n)
        return jobs

    async def _refresh(self, db: Connection) -> None:
        if self._clock.monotonic() >= self._serving_until:
            serving = await list_queue_serving(db, self._names)
            if serving != self._serving:  # a queue that was paused or full gave nothing for that
                self._frontier.forget()
            self._serving = serving
            self._serving_until = self._clock.monotonic() + SERVING_AGE_S
            missing = frozenset(self._names).difference(queue.name for queue in self._serving)
            if missing:
                QUEUES_MISSING.emit(missing)

    def _note(self, rooms: dict[str, int], jobs: list[LeasedJob], *, full: bool) -> None:
        gave = {job.queue for job in jobs}
        for queue, room in rooms.items():
            if queue in gave:
                self._pace.hurry(queue)
            elif full and room > 0:  # it may not have been reached
                self._pace.passed_over(queue)
            else:
                self._pace.gave_nothing(queue, full=room <= 0)


class _Call:
    """One claim under way."""

    def __init__(  # noqa: PLR0913 - what a statement needs, and who learns from it
        self,
        db: Connection,
        worker: int,
        types: frozenset[str],
        lease_s: float,
        clock: Clock,
        frontier: Frontier,
        *,
        running: bool,
    ) -> None:
        self._db = db
        self._worker = worker
        self._types = sorted(types)
        self._lease_s = lease_s
        self._clock = clock
        self._frontier = frontier
        self._running = running

    async def take(
        self, probes: Sequence[Probe], n: int, limited: Sequence[str] = ()
    ) -> list[LeasedJob]:
        probes = self._frontier.bound(probes)
        begun_at = self._clock.monotonic()
        jobs = await claim_jobs(
            self._db,
            worker=self._worker,
            probes=probes,
            n=n,
            types=self._types,
            lease_s=self._lease_s,
            running=self._running,
            limited=limited,
        )
        self._frontier.note(probes, n, jobs, begun_at)
        return jobs

    async def take_within(
        self, probes: Sequence[Probe], n: int, rooms: dict[str, int]
    ) -> list[LeasedJob]:
        """Take up to ``n`` jobs, from no limited queue more than its room.

        A statement cannot count while it takes, so each asks for no more jobs than the smallest
        room: whatever mix comes, no limit is passed, and the order is exact. When a statement
        came back full without a job of a limited queue, the rest comes from the others, and from
        the limited ones only what the others leave: the next claim looks at these first again.
        """
        taken: list[LeasedJob] = []
        aside: dict[str, int] = {}
        while len(taken) < n:
            left = n - len(taken)
            visited = [p for p in probes if rooms.get(p.queue, left) > 0]
            ask = min([left, *(room for room in rooms.values() if room > 0)])
            jobs = await self.take(visited, ask, sorted(rooms)) if visited else []
            taken += jobs
            from_limited = [job.queue for job in jobs if job.queue in rooms]
            for queue in from_limited:
                rooms[queue] -= 1
            if len(jobs) == ask and not from_limited:
                aside = {queue: max(room, aside.get(queue, 0)) for queue, room in rooms.items()}
                rooms = dict.fromkeys(rooms, 0)
            elif len(jobs) < ask:
                if not aside:
                    break
                rooms, aside = aside, {}
        return taken


async def _room(db: Connection, queue: str) -> int:
    """Lock the queue against other claims until commit; return how many more may run.

    Queues are locked in the order of their names, so that two workers never wait in a circle.
    A queue that is no longer limited was not locked: it is left to the next claim.
    """
    room = await lock_queue(db, queue)
    return max((room.max_running or 0) - room.running, 0)
