"""Where jobs for one remote worker come out: claims as it has room, rests when there is nothing."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.limits import MIB, Limits
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.errands import Errands
from jobqueue.lease.probes import ProbePlan
from jobqueue.lease.tally import tell_claimed
from jobqueue.store.faults import translated
from jobqueue.store.leases import look_up_leases
from jobqueue.store.pool import Pool
from jobqueue.store.workers import Serving, is_newest_stream

FIRST_IDLE_S, LAST_IDLE_S = 0.05, 2.5
"""An outlet that finds nothing asks again after 50 ms, doubling to 2.5 s."""

MOST_BYTES = Limits().message_bytes - MIB
"""The largest payload that leaves a message room for the rest of a job. Only a hand in the database
stores a larger one."""

_FULL_S = 1.0
"""A worker without room is looked at this often: its reports may go to another server."""

_FIRST_PAGE, _LAST_PAGE = 4, 50
_PAGE_BYTES = 4 * 1024 * 1024
"""What is claimed waits in the server's memory until the worker has read what came before it.
Pages of about this size keep that small, whatever room a worker says it has."""


class Outlet:
    """The jobs of one open stream. Jobs come ASSIGNED; the worker starts them.

    ``outstanding`` is what was sent and not heard of since. A job is on its way until the next one
    is asked for; what was claimed and never got so far is released when the stream is closed.
    One that another stream of the worker has replaced, on whatever server, ends with the next job
    it would send: nobody may be left at its other end.
    """

    def __init__(  # noqa: PLR0913 - all of it is the desk's
        self,
        pool: Pool,
        worker: int,
        serving: Serving,
        outstanding: Iterable[Lease],
        *,
        lease_s: float,
        turnstile: asyncio.Semaphore,
        errands: Errands,
        release: Callable[[Sequence[Lease]], None],
        refuse: Callable[[Sequence[Lease]], None],
    ) -> None:
        """``turnstile`` bounds how many outlets claim at once; ``release`` hands leases back.

        ``refuse`` does it with what no message can hold, so that it does not come again at once.
        """
        self._pool = pool
        self._worker = worker
        self._stream = serving.stream
        self._room = serving.room
        self._claimer = Claimer(serving.queues, ProbePlan(serving.types), lease_s)
        self._outstanding = set(outstanding)
        self._page = _FIRST_PAGE
        self._lease_s = lease_s
        self._turnstile = turnstile
        self._errands = errands
        self._release = release
        self._refuse = refuse
        self._news = asyncio.Event()
        self._idle_s = FIRST_IDLE_S
        self._ended = False

    async def jobs(self) -> AsyncGenerator[LeasedJob, None]:
        """Yield jobs until ``end``. Raises Unavailable and its like when the database is away."""
        claimed: list[LeasedJob] = []
        try:
            while not self._ended:
                self._news.clear()
                wanted = self._portion()
                claimed = await self._claim(wanted)
                more = len(claimed) == wanted > 0
                while claimed and not self._ended:
                    yield claimed[0]
                    del claimed[0]
                if not more:
                    await self._rest()
        finally:
            self._give_back(claimed)

    def hint(self, queues: frozenset[str]) -> None:
        """There may be work in these queues; no names: in any."""
        if self._claimer.hint(queues):
            self._idle_s = FIRST_IDLE_S
            if not self._full:  # else hints without a pause would put off the look for room
                self._news.set()

    def gone(self, leases: Iterable[Lease]) -> None:
        """These are settled or lost: there is room again."""
        before = len(self._outstanding)
        self._outstanding.difference_update(leases)
        if len(self._outstanding) < before:
            self._news.set()

    def end(self) -> None:
        """Yield nothing more."""
        self._ended = True
        self._news.set()

    @property
    def _full(self) -> bool:
        return len(self._outstanding) >= self._room

    def _portion(self) -> int:
        """Return how many jobs to claim next: what there is room for, a page at most."""
        return max(min(self._room - len(self._outstanding), self._page), 0)

    async def _claim(self, n: int) -> list[LeasedJob]:
        if n == 0:
            return []
        # A stream that is cut while it claims gives back what comes: nobody else knows of it.
        jobs = await self._errands.run(self._take(n), self._give_back)
        self._outstanding.update(job.lease for job in jobs)
        if jobs:
            self._idle_s = FIRST_IDLE_S
            self._page = page_after(jobs)
        return jobs

    async def _take(self, n: int) -> list[LeasedJob]:
        with translated():
            async with self._turnstile, self._pool.acquire() as connection:
                # A statement that hangs must not hold the turnstile for ever.
                async with asyncio.timeout(self._lease_s / 4):
                    jobs = await self._claimer.claim(connection, self._worker, n, running=False)
                    replaced = bool(jobs) and not await is_newest_stream(
                        connection, self._worker, self._stream
                    )
        tell_claimed(jobs)
        if replaced:
            self.end()
            self._give_back(jobs)
            return []
        return self._that_fit(jobs)

    def _that_fit(self, jobs: list[LeasedJob]) -> list[LeasedJob]:
        """Return what can be sent. One that cannot would cut the stream, and each one after it."""
        unfit = [job.lease for job in jobs if len(job.payload) > MOST_BYTES]
        if not unfit:
            return jobs
        self._refuse(unfit)
        return [job for job in jobs if len(job.payload) <= MOST_BYTES]

    def _give_back(self, jobs: Sequence[LeasedJob]) -> None:
        if jobs:
            self._release([job.lease for job in jobs])

    async def _rest(self) -> None:
        """Wait for news; look for room that nobody told of."""
        full = self._full
        seconds = _FULL_S if full else self._idle_s
        if not full:
            self._idle_s = min(2 * self._idle_s, LAST_IDLE_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds * random.uniform(0.8, 1.2)):  # noqa: S311 - no secret
                await self._news.wait()
                return
        if full:
            await self._recount()

    async def _recount(self) -> None:
        leases = list(self._outstanding)
        with translated():
            held = await look_up_leases(self._pool, worker=self._worker, leases=leases)
        self._outstanding.difference_update(set(leases).difference(h.lease for h in held))


def page_after(jobs: Sequence[LeasedJob]) -> int:
    """Return how many jobs to claim at once, after some that are like those to come."""
    largest = max(len(job.payload) for job in jobs)
    return max(min(_PAGE_BYTES // max(largest, 1), _LAST_PAGE), 1)
