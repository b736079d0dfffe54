"""Everybody at once: no job in two places at any instant, no illegal move, no deadlock."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from uuid import UUID

from jobqueue.domain.outcome import Completed, Failed, Outcome, Released
from jobqueue.errors import Aborted
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.probes import ProbePlan
from jobqueue.lease.takeover import Takeover, expired
from jobqueue.store.faults import translated
from jobqueue.store.jobs import cancel_job, retry_job
from jobqueue.store.leases import renew_leases
from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import promote_jobs
from tests.store.conftest import Connect
from tests.support.store import add_queue, make_due, settle, submit

JOBS = 60
ROUNDS = 60
_PLACES = """
    SELECT count(*) FROM (
        SELECT id FROM jobqueue.ready UNION ALL SELECT id FROM jobqueue.scheduled
        UNION ALL SELECT id FROM jobqueue.leases UNION ALL SELECT id FROM jobqueue.finished
    ) p
"""

Actor = Callable[[Connection, random.Random], Awaitable[None]]


def worker(number: int, landed: Counter[str]) -> Actor:
    """Claim a few, renew, settle each in some way; some settles come late."""
    claimer = Claimer(["q"], ProbePlan(frozenset({"t"})), lease_s=0.02)
    outcomes: list[Outcome] = [Completed(), Failed("boom"), Released()]

    async def act(db: Connection, chance: random.Random) -> None:
        jobs = await claimer.claim(db, number, chance.randint(1, 5), running=True)
        leases = [job.lease for job in jobs if chance.random() < 0.5]
        if leases:
            await renew_leases(db, worker=number, leases=leases, lease_s=0.02)
        for job in jobs:
            if chance.random() < 0.2:
                continue  # as if this worker had died
            answer = await settle(db, job, chance.choice(outcomes), worker=number)
            landed[f"settle {answer}"] += 1

    return act


def reaper(landed: Counter[str]) -> Actor:
    takeover = Takeover(expired(), page_size=7, crash_limit=1_000)

    async def act(db: Connection, chance: random.Random) -> None:
        landed["reaped"] += (await takeover.step(db)).taken

    return act


def promoter(landed: Counter[str]) -> Actor:
    async def act(db: Connection, chance: random.Random) -> None:
        landed["promoted"] += (await promote_jobs(db, 10)).count

    return act


def operator(ids: list[UUID], landed: Counter[str]) -> Actor:
    """Cancel or retry any job at any time."""

    async def act(db: Connection, chance: random.Random) -> None:
        job_id = chance.choice(ids)
        try:
            with translated():
                if chance.random() < 0.4:
                    landed[f"cancel {(await cancel_job(db, job_id, running=True)).word}"] += 1
                else:
                    landed[f"retry {(await retry_job(db, job_id)).word}"] += 1
        except Aborted:
            landed["aborted"] += 1

    return act


async def test_every_snapshot_shows_every_job_in_one_place(
    db: Connection, another: Connect
) -> None:
    await add_queue(db, max_retries=1_000)
    ids = await submit(db, JOBS)
    landed: Counter[str] = Counter()
    seed = random.randrange(2**32)
    over = asyncio.Event()

    async def repeat(actor: Actor, number: int) -> None:
        connection, chance = await another(), random.Random(seed + number)
        for _ in range(ROUNDS):
            await actor(connection, chance)

    async def hurry() -> None:
        connection = await another()
        while not over.is_set():
            await make_due(connection)

    async def read() -> list[int]:
        connection, seen = await another(), []
        while not over.is_set():
            seen.append(await connection.fetchval(_PLACES))
        return seen

    watching = asyncio.gather(read(), hurry())
    actors = [
        *(worker(number, landed) for number in range(1, 5)),
        *(reaper(landed) for _ in range(2)),
        *(promoter(landed) for _ in range(2)),
        *(operator(ids, landed) for _ in range(3)),
    ]
    await asyncio.gather(*(repeat(actor, n) for n, actor in enumerate(actors)))
    over.set()
    seen, _ = await watching

    assert set(seen) == {JOBS}, f"seed {seed}"
    expected = {"settle settled", "reaped", "promoted", "cancel CANCELLED", "retry RETRIED"}
    assert all(landed[event] > 0 for event in expected), f"seed {seed}: {landed}"
