"""Applications and operators who use the system while it suffers."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from jobqueue.client import AsyncClient, JobSpec, Submitted
from jobqueue.errors import (
    Aborted,
    DeadlineExceeded,
    FailedPrecondition,
    NotFound,
    Unavailable,
)
from jobqueue.store.pool import Connection
from tests.chaos.history import Call
from tests.chaos.system import BACKOFF_S, NARROW_LIMIT, QUEUES, SHELF

UNANSWERED = (Unavailable, DeadlineExceeded, Aborted)
"""What a caller hears who cannot know what became of his call and of those that repeated it."""

_BATCH = 20
_SUBMITTERS, _OPERATORS = 4, 4
_CALL_S = 5.0
_TYPES = {
    "short": 70,
    "child": 6,
    "flaky": 10,
    "later": 4,
    "long": 3,
    "doomed": 3,
    "stubborn": 1,
}
_PAUSE_S, _TRICKLE_S = 0.05, 2.0
_KEYED, _REPEATED = 0.1, 0.1
"""Of all submissions, whether alone or in a batch: new ones that have a key, and repeats of one."""

_COUNTED, _MOST_RETRIES = 0.1, 5
"""Of all, those that say how often they may be retried, and how often that is at most."""


@dataclass
class Load:
    """What was submitted, and what came of it as far as callers know."""

    addresses: Sequence[str]
    jobs: int
    rng: random.Random
    calls: list[Call] = field(default_factory=list)
    unanswered: int = 0
    accepted: int = 0
    repeats: int = 0
    """Submissions whose key was sent before."""
    doubted: int = 0
    """Of those, the ones after which nobody knew whether there was a job."""
    operators: int = 0
    live: int = 0
    """Jobs that have not ended, when last looked; submitters wait while there are enough."""
    most_live: int = 300
    share: float = 0.0
    """Of all jobs, what may be submitted by now at full speed."""
    trickles: bool = False
    """Whether some more are submitted beyond that, and beyond all, for as long as this is set."""
    _made: int = 0
    _answered: dict[str, JobSpec] = field(default_factory=dict)
    _unanswered: dict[str, JobSpec] = field(default_factory=dict)
    """Submissions by key, all those that were sent."""

    async def prepare(self) -> None:
        """Make the queues."""
        async with AsyncClient(self.addresses[0], timeout_s=30.0) as client:
            for queue in (*QUEUES, SHELF):
                await client.create_queue(queue, base_delay_s=BACKOFF_S, max_delay_s=5 * BACKOFF_S)
            await client.update_queue(QUEUES[1], max_running=NARROW_LIMIT)

    async def submit_all(self) -> None:
        """Submit as many jobs as were asked for at least, by several callers at once."""
        await asyncio.gather(*(self._submitter(i) for i in range(_SUBMITTERS)))

    async def operate(self) -> None:
        """Cancel and retry jobs now and then, until cancelled."""
        await asyncio.gather(*(self._operator() for _ in range(_OPERATORS)))

    async def give(self, address: str, jobs: int, kind: str = "short") -> bool:
        """Submit so many jobs of a kind to one server; tell whether it took them."""
        specs = [JobSpec(QUEUES[0], self._name(), type=kind) for _ in range(jobs)]
        async with AsyncClient(address, timeout_s=_CALL_S) as client:
            return await self._submit(client, specs)

    async def _operator(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.2, 0.8))
            known = [call.job for call in self.calls[-500:] if call.job]
            if known:
                await self._operate_on(self.rng.choice(known))

    async def _operate_on(self, job: str) -> None:
        async with self._client() as client:
            try:
                if self.rng.random() < 0.7:
                    await client.cancel(job, running=self.rng.random() < 0.5, timeout_s=_CALL_S)
                else:
                    await client.retry(job, timeout_s=_CALL_S)
            except (*UNANSWERED, FailedPrecondition, NotFound):
                return
            self.operators += 1

    async def _submitter(self, i: int) -> None:
        while self.accepted < self.jobs or self.trickles:
            ahead = self.accepted >= self.share * self.jobs
            if self.live > self.most_live or (ahead and not self.trickles):
                await asyncio.sleep(_PAUSE_S)
                continue
            if ahead:
                await asyncio.sleep(_TRICKLE_S)
            async with self._client(i) as client:
                await self._turn(client)

    async def _turn(self, client: AsyncClient) -> None:
        size = 1 if self.rng.random() < 0.5 else _BATCH
        await self._submit(client, [self._next() for _ in range(size)])

    def _next(self) -> JobSpec:
        """Return a new submission, or one time in ten one that was sent before."""
        if self.rng.random() < _REPEATED:
            # Of those without an answer there are fewer, and they are what keys are for.
            kinds = [each for each in (self._answered, self._unanswered) if each]
            if kinds:
                chosen = self.rng.choice(kinds)
                self.repeats += 1
                self.doubted += chosen is self._unanswered
                return self.rng.choice(list(chosen.values()))
        return self._spec()

    async def _submit(self, client: AsyncClient, specs: Sequence[JobSpec]) -> bool:
        """Submit, and write down what is known of it; tell whether there was an answer."""
        self.live += len(specs)
        sent_at = time.time()
        try:
            answers: Sequence[Submitted | None]
            if len(specs) == 1:
                answers = [await client.submit(specs[0], timeout_s=_CALL_S)]
            else:
                answers = await client.submit_many(specs, timeout_s=_CALL_S)
        except UNANSWERED:
            self.unanswered += len(specs)
            answers = [None] * len(specs)
        for spec, made in zip(specs, answers, strict=True):
            self._note(spec, None if made is None else str(made.job_id), sent_at)
        return None not in answers

    def _note(self, spec: JobSpec, job: str | None, sent_at: float) -> None:
        """Write down what a caller knows; the job of a repeat is no other one."""
        key = spec.idempotency_key
        heard_at = None if job is None else time.time()
        said = (spec.delay_s, spec.ttl_s, spec.max_retries, sent_at, heard_at)
        self.calls.append(Call(spec.payload.decode(), job, key, *said))
        self.accepted += job is not None and key not in self._answered
        if key and job:
            self._unanswered.pop(key, None)
            self._answered[key] = spec
        elif key and key not in self._answered:
            self._unanswered[key] = spec

    def _name(self) -> bytes:
        self._made += 1
        return f"job-{self._made}".encode()

    def _spec(self) -> JobSpec:
        (kind,) = self.rng.choices(list(_TYPES), list(_TYPES.values()))
        name = self._name()
        spec = JobSpec("work", name, type=kind, priority=self.rng.randrange(10))
        if self.rng.random() < _KEYED:
            spec = replace(spec, idempotency_key=name.decode())
        if self.rng.random() < _COUNTED:
            spec = replace(spec, max_retries=self.rng.randrange(_MOST_RETRIES + 1))
        chance = self.rng.random()
        if chance < 0.05:
            return replace(spec, delay_s=self.rng.uniform(0.2, 2.0))
        if chance < 0.08:
            return replace(spec, ttl_s=self.rng.uniform(0.2, 3.0))
        if chance < 0.13:
            return replace(spec, queue=QUEUES[1], type="short")
        if chance < 0.15:
            return replace(spec, queue=SHELF, ttl_s=self.rng.uniform(0.2, 1.0))
        return spec

    @asynccontextmanager
    async def _client(self, i: int | None = None) -> AsyncIterator[AsyncClient]:
        chosen = self.rng.randrange(2) if i is None else (i + self._made) % 2
        async with AsyncClient(self.addresses[chosen], timeout_s=_CALL_S) as client:
            yield client

    async def watch(self, db: "Connection") -> None:
        """Keep ``live`` true, until cancelled; the database may be away for a while."""
        while True:
            self.live = await count_live(db)
            await asyncio.sleep(_PAUSE_S)


async def count_live(db: Connection) -> int:
    """Return how many jobs have not ended."""
    live: int = await db.fetchval(
        "SELECT (SELECT count(*) FROM jobqueue.ready) + (SELECT count(*) FROM jobqueue.scheduled)"
        " + (SELECT count(*) FROM jobqueue.leases)"
    )
    return live
