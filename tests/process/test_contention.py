"""Sixteen who move the same jobs at once, and a server that reaps and promotes (R-4.12)."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import asyncpg

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Completed, Failed, Outcome, Released
from jobqueue.errors import FailedPrecondition
from jobqueue.store.leases import renew_leases, settle_leases
from jobqueue.store.pool import connect
from tests.support.facade import serving
from tests.support.soundness import assert_sound
from tests.support.store import claim, probes, settlement
from tests.support.waiting import HANG_S, eventually

JOBS, WORKERS, OPERATORS = 200, 6, 10
ROUNDS = int(os.environ.get("JQ_TEST_ROUNDS", "40"))
KEPT, DOOMED = "kept", "doomed"
LEASE_S = 0.02
OUTCOMES: tuple[Outcome, ...] = (Completed(), Failed("boom"), Released())
FAST = {"reaper__interval_ms": 50, "scheduler__interval_ms": 50, "retry__base_delay_s": 0.1}
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
REAPED = "SELECT count(*) FROM jobqueue.job_event_log WHERE reason = 'LEASE_EXPIRED'"


async def work(dsn: str, number: int, chance: random.Random, landed: Counter[str]) -> None:
    """Claim a few, renew and settle of all that were ever claimed, in any order: many too late."""
    db = await connect(dsn, connect_timeout_s=HANG_S)
    held: list[LeasedJob] = []
    for _ in range(ROUNDS):
        where = probes(chance.sample((KEPT, DOOMED), 2))
        held += await claim(db, 8, where=where, worker=number, lease_s=LEASE_S)
        chance.shuffle(held)
        await renew_leases(db, worker=number, leases=[j.lease for j in held], lease_s=LEASE_S)
        chance.shuffle(held)
        ended = [settlement(job, chance.choice(OUTCOMES)) for job in held[: len(held) // 2]]
        del held[: len(ended)]
        answers = await settle_leases(db, worker=number, settlements=ended)
        landed.update(answer.state for answer in answers)
    await db.close()


async def operate(
    client: AsyncClient, ids: Sequence[UUID], chance: random.Random, landed: Counter[str]
) -> None:
    """Cancel or retry whatever it is; nothing but the plain truth may be the answer."""
    for _ in range(ROUNDS):
        job_id = chance.choice(ids)
        call: Callable[[UUID], Awaitable[object]] = chance.choice((client.cancel, client.retry))
        try:
            await call(job_id)
            landed[call.__name__] += 1
        except FailedPrecondition:
            landed["refused"] += 1


async def test_claims_cancels_retries_reaps_and_a_bulk_cancel_never_deadlock(
    database: str, conn: asyncpg.Connection, seed: int
) -> None:
    landed: Counter[str] = Counter()
    chances = [random.Random(seed + n) for n in range(WORKERS + OPERATORS)]
    async with (
        serving(database, **FAST) as facade,
        AsyncClient(f"127.0.0.1:{facade.port}") as client,
    ):
        for queue in (KEPT, DOOMED):
            await client.create_queue(queue, max_retries=1_000, base_delay_s=0.1, max_delay_s=0.1)
        half = [JobSpec(KEPT, type="t")] * (JOBS // 2), [JobSpec(DOOMED, type="t")] * (JOBS // 2)
        made = [one for specs in half for one in await client.submit_many(specs)]
        ids = [one.job_id for one in made]
        async with asyncio.TaskGroup() as all_at_once:
            for n, chance in enumerate(chances[:WORKERS], 1):
                all_at_once.create_task(work(database, n, chance, landed))
            for chance in chances[WORKERS:]:
                all_at_once.create_task(operate(client, ids, chance, landed))
            all_at_once.create_task(client.delete_queue(DOOMED, force=True, timeout_s=90))
        await eventually(lambda: conn.fetchval(REAPED), within_s=30, what="a job of a dead worker")
    assert all(landed[kind] for kind in ("settled", "cancel", "retry", "refused")), landed
    assert await conn.fetchval(DEADLOCKS) == 0
    await assert_sound(conn)
