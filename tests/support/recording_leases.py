"""A second real side of the ``Leases`` interface: hands out given jobs, records what comes back."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from uuid import uuid4

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Charge, Outcome, Settlement, decide
from jobqueue.domain.worker import WorkerFacts
from jobqueue.errors import Unavailable
from jobqueue.lease.interface import Answered, News
from tests.support.waiting import HANG_S

_numbers = count(1)


def leased(
    type_: str | None = "echo",
    payload: bytes = b"",
    *,
    queue: str = "default",
    running: bool = True,
    timeout_s: float | None = None,
    labels: Mapping[str, str] | None = None,
) -> LeasedJob:
    """Return a claimed job."""
    number = next(_numbers)
    return LeasedJob(
        lease=Lease(number, 1000 + number),
        job_id=uuid4(),
        queue=queue,
        type=type_,
        payload=payload,
        priority=0,
        attempt=1,
        running=running,
        max_retries=3,
        timeout_s=timeout_s,
        labels=dict(labels or {}),
    )


class RecordingLeases:
    """Jobs in, settlements out. ``outage`` makes every question fail as a lost database does."""

    def __init__(self, jobs: Sequence[LeasedJob] = ()) -> None:
        self.queue = list(jobs)
        self.settled: dict[Lease, Settlement] = {}
        self.gone: set[Lease] = set()
        self.deadlines: dict[Lease, float] = {}
        self.claims: list[tuple[int, bool]] = []
        self.calls: list[str] = []
        self.beats = 0
        self.hold_limit_s = math.inf
        self.outage = False
        self.facts: WorkerFacts | None = None
        self.hint = asyncio.Event()
        self.settles_may_answer = asyncio.Event()
        self.settles_may_answer.set()
        self._changed = asyncio.Event()
        self.unsettled: set[asyncio.Task[None]] = set()
        self._callbacks: list[Callable[[News], None]] = []

    async def open(self, facts: WorkerFacts) -> None:
        self.calls.append("open")
        self._reach()
        self.facts = facts

    async def claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        self.claims.append((n, running))
        self._reach()
        batch, self.queue = self.queue[:n], self.queue[n:]
        return [replace(job, running=running and job.running) for job in batch]

    async def start(self, leases: Sequence[Lease]) -> frozenset[Lease]:
        self.calls.append(f"start {len(leases)}")
        self._reach()
        return frozenset(leases) - self.gone

    def settle(self, job: LeasedJob, outcome: Outcome, answered: Answered) -> None:
        task = asyncio.create_task(self._answer(job, outcome, answered))
        self.unsettled.add(task)
        task.add_done_callback(self.unsettled.discard)

    async def _answer(self, job: LeasedJob, outcome: Outcome, answered: Answered) -> None:
        await self.settles_may_answer.wait()
        try:
            held = self._settle(job, outcome)
        except Unavailable as error:
            answered([job], False, error)
        else:
            answered([job], held, None)

    def _settle(self, job: LeasedJob, outcome: Outcome) -> bool:
        self._reach()
        if job.lease in self.gone:
            return False
        assert job.lease not in self.settled, "a lease was settled twice"
        charge = Charge(job.lease, job.max_retries, job.counters, job.policy)
        self.settled[job.lease] = decide(charge, outcome, crash_limit=3, jitter=0.5)
        self._changed.set()
        return True

    def set_deadline(self, lease: Lease, seconds: float) -> None:
        self.deadlines[lease] = seconds

    def on_news(self, callback: Callable[[News], None]) -> None:
        self._callbacks.append(callback)

    async def wait_for_work(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self.hint.wait()
        except TimeoutError:
            return False
        self.hint.clear()
        return True

    def stop_claiming(self) -> None:
        self.calls.append("stop claiming")

    async def set_draining(self) -> None:
        self.calls.append("draining")

    def beat(self) -> None:
        self.beats += 1

    async def close(self) -> None:
        self.calls.append("close")

    def tell(self, news: News) -> None:
        """Let the worker hear something."""
        for callback in self._callbacks:
            callback(news)

    async def settlement(self, job: LeasedJob, within_s: float = HANG_S) -> Settlement:
        """Wait until this job is settled."""
        async with asyncio.timeout(within_s):
            while job.lease not in self.settled:
                self._changed.clear()
                await self._changed.wait()
        return self.settled[job.lease]

    def _reach(self) -> None:
        if self.outage:
            raise Unavailable("the database is away")
