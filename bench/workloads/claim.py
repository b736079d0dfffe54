"""Claims and operators' calls in a database with many jobs."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import asyncpg

from bench.fleet import start_server
from bench.form import Form
from bench.ours import Ours
from bench.results import Column, Sample
from bench.seed import add_finished, add_ready
from bench.stage import Stage
from bench.stats import percentiles
from bench.systems import NOOP, QUEUE
from bench.workloads.base import COSTS, FILL_PER_S, FOREIGN, SCENE_S, Plan, Workload
from jobqueue.client import AsyncClient, JobFilter, JobStatus
from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Charge, Completed, Settlement, decide
from jobqueue.domain.worker import WorkerFacts
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.probes import ProbePlan
from jobqueue.store.leases import settle_leases
from jobqueue.store.pool import Connection, connect
from jobqueue.store.workers import register_worker

CLAIM = 100
COPIED_PER_S = 400_000
_LEASE_S = 60.0
_TYPES = frozenset({NOOP})
_FACTS = WorkerFacts("bench", "bench", 1, (QUEUE,), (NOOP,), CLAIM, "direct", "bench")


class ClaimDepth(Workload):
    """The statement that everything depends on, beside nothing and beside very much."""

    name = "claim"
    title = "Claims among many jobs"
    about = (
        f"One connection claims {CLAIM} jobs at a time, spread over ten priorities, and settles"
        " them; the latency is that of the claim alone: query, leases, events, bodies, as a worker"
        " has them in hand. Operators' calls (figures, lists, one job, status) go through a server"
        " on the same database."
    )
    columns = (
        Column("p50", "p50 ms", 2),
        Column("p95", "p95 ms", 2),
        Column("p99", "p99 ms", 2),
        Column("max", "max ms", 2),
        *COSTS,
        FOREIGN,
    )
    plot = "p95"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """A small system, a big one, and the calls in the big one."""
        form = stage.form
        few = CLAIM * form.claims
        # A copy of the big database is made for each cell.
        lasts_s = form.box_s + SCENE_S + form.claim_rows / COPIED_PER_S
        big = f"{form.claim_rows:,} rows, {form.claim_ready:,} ready"
        return [
            Plan("jobqueue", EMPTY, partial(self._claims, stage, few, few), lasts_s),
            Plan("jobqueue", BIG, partial(self._claims, stage, *_big(stage)), lasts_s, big),
            Plan("jobqueue", CALLS, partial(self._calls, stage, *_big(stage)), lasts_s, big),
        ]

    def prepares_s(self, form: Form) -> float:
        """Every row is inserted."""
        return form.claim_rows / FILL_PER_S

    async def _claims(self, stage: Stage, rows: int, ready: int) -> Sample:
        template = await _filled(stage, rows, ready)
        async with stage.scene(Ours(), template) as scene, _hot(scene.dsn) as connection:
            worker = await register_worker(connection, _FACTS)
            claimer = Claimer((QUEUE,), ProbePlan(_TYPES), _LEASE_S)
            await _round(connection, claimer, worker)
            first = await scene.meter.read()
            deadline = time.monotonic() + stage.form.box_s
            times: list[float] = []
            while len(times) < stage.form.claims - 1 and time.monotonic() < deadline:
                times.append(await _round(connection, claimer, worker))
            window = await scene.meter.since(first)
            return Sample({**window.values(CLAIM * len(times)), **percentiles(times, scale=1000)})

    async def _calls(self, stage: Stage, rows: int, ready: int) -> Sample:
        template = await _filled(stage, rows, ready)
        async with stage.scene(Ours(), template) as scene:
            _, address = await start_server(scene)
            job = await scene.connection.fetchval("SELECT job_id FROM jobqueue.jobs LIMIT 1")
            first = await scene.meter.read()
            deadline = time.monotonic() + stage.form.box_s
            times: list[float] = []
            async with AsyncClient(address, timeout_s=60) as client:
                while time.monotonic() < deadline:
                    times += [await _timed(call) for call in _calls(client, str(job))]
            window = await scene.meter.since(first)
            figures = percentiles(times, scale=1000)
            return Sample({**figures, "foreign_pct": window.foreign_pct})


EMPTY, BIG, CALLS = "empty system", "full system", "operators' calls, full system"


def _big(stage: Stage) -> tuple[int, int]:
    return stage.form.claim_rows, stage.form.claim_ready


async def _filled(stage: Stage, rows: int, ready: int) -> str:
    async def fill(connection: asyncpg.Connection) -> None:
        await add_finished(connection, rows - ready)
        await add_ready(connection, ready)

    return await stage.filled(Ours(), f"{rows} rows, {ready} ready", fill)


@asynccontextmanager
async def _hot(dsn: str) -> AsyncIterator[Connection]:
    connection = await connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def _round(connection: Connection, claimer: Claimer, worker: int) -> float:
    """Claim and settle; return how long the claim took."""
    begun = time.perf_counter()
    jobs = await claimer.claim(connection, worker, CLAIM, running=True)
    took = time.perf_counter() - begun
    assert len(jobs) == CLAIM, f"only {len(jobs)} jobs were claimed"
    await settle_leases(connection, worker=worker, settlements=[_done(job) for job in jobs])
    return took


def _done(job: LeasedJob) -> Settlement:
    charge = Charge(job.lease, job.max_retries, job.counters, job.policy)
    return decide(charge, Completed(None), crash_limit=1, jitter=0.0)


def _calls(client: AsyncClient, job: str) -> Sequence[Callable[[], Awaitable[object]]]:
    filters = (JobFilter(statuses=frozenset({status})) for status in JobStatus)
    return [
        client.queue_stats,
        client.list_queues,
        client.list_workers,
        client.status,
        partial(client.get, job),
        partial(client.events, job),
        *(partial(client.list_page, only) for only in filters),
    ]


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun
