"""Idle pick-up: how soon a worker that has nothing to do starts a job."""

import asyncio
import random
import time
from collections.abc import Sequence
from functools import partial

from bench.fleet import start_server, start_workers
from bench.measure import MICROSECONDS, WORKERS
from bench.ours import Ours, worker
from bench.processes import until
from bench.results import Column, Sample
from bench.stage import Scene, Stage
from bench.stats import percentiles
from bench.systems import QUEUE
from bench.workloads.base import FOREIGN, SCENE_S, Plan, Workload, says
from jobqueue.client import AsyncClient, JobSpec
from tests.support.query_counter import QueryCounter

PER_SECOND = 20
_ENDS_S = 30.0
_SETTLE_S = 6.0
_TIMES = """
    SELECT convert_from(f.result, 'UTF8')::float8 - convert_from(j.payload, 'UTF8')::float8
    FROM jobqueue.jobs j JOIN jobqueue.finished f USING (id) WHERE NOT f.dead
"""
ALL_DONE = "SELECT (SELECT count(*) FROM jobqueue.jobs) = (SELECT count(*) FROM jobqueue.finished)"


class PickUp(Workload):
    """Direct and remote workers through one server; and what an idle worker asks for."""

    name = "pick-up"
    title = "Idle pick-up"
    about = (
        f"About {PER_SECOND} jobs a second at random moments are submitted one by one to a server"
        " whose worker is idle. The latency is from before the call of `submit` to the first line"
        " of the handler, both by the clock of the machine. An idle worker's queries are counted by"
        " a proxy before PostgreSQL."
    )
    columns = (
        Column("p50", "p50 ms", 2),
        Column("p95", "p95 ms", 2),
        Column("p99", "p99 ms", 2),
        Column("max", "max ms", 2),
        Column("idle_queries", "idle queries/s", 2),
        Column("idle_cpu", "idle CPU ms/s", 2),
        FOREIGN,
    )
    plot = "p99"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """Two ways to a job, and no job at all."""
        lasts_s = stage.form.pickup_jobs / PER_SECOND + 3 * SCENE_S
        idle_s = _SETTLE_S + stage.form.idle_s + SCENE_S
        return [
            Plan("jobqueue", "direct worker", partial(self._pick_up, stage, remote=False), lasts_s),
            Plan("jobqueue", "remote worker", partial(self._pick_up, stage, remote=True), lasts_s),
            Plan("jobqueue", "idle direct worker", partial(self._idle, stage), idle_s, runs=1),
        ]

    async def _pick_up(self, stage: Stage, *, remote: bool) -> Sample:
        async with stage.scene(Ours()) as scene:
            _, address = await start_server(scene)
            await start_workers(scene, 1, address=address if remote else "")
            first = await scene.meter.read()
            async with AsyncClient(address) as client:
                await submit_at_random(client, stage.form.pickup_jobs)
            await until(partial(says, scene, ALL_DONE), within_s=_ENDS_S, what="the last job")
            window = await scene.meter.since(first)
            times = await pick_up_times(scene)
            return Sample({**percentiles(times, scale=1000), "foreign_pct": window.foreign_pct})

    async def _idle(self, stage: Stage) -> Sample:
        async with stage.scene(Ours()) as scene, QueryCounter(scene.dsn) as counter:
            await scene.start(worker(counter.dsn), group=WORKERS)
            await _registered(scene)
            # It looks often at first, then less and less.
            await asyncio.sleep(_SETTLE_S)
            first, before = await scene.meter.read(), counter.queries
            await asyncio.sleep(stage.form.idle_s)
            queries = counter.queries - before
            window = await scene.meter.since(first)
            cpu_ms = window.cpu[WORKERS] * MICROSECONDS / 1000 / window.seconds
            return Sample(
                {
                    "idle_queries": queries / window.seconds,
                    "idle_cpu": cpu_ms,
                    "foreign_pct": window.foreign_pct,
                }
            )


async def _registered(scene: Scene) -> None:
    question = "SELECT EXISTS (SELECT FROM jobqueue.workers)"
    await until(partial(says, scene, question), within_s=_ENDS_S, what="the worker")


async def submit_at_random(client: AsyncClient, jobs: int) -> None:
    """Submit jobs that note when they were sent, one by one at random moments."""
    for _ in range(jobs):
        await asyncio.sleep(random.expovariate(PER_SECOND))
        sent = repr(time.time()).encode()
        await client.submit(JobSpec(queue=QUEUE, type="stamp", payload=sent))


async def pick_up_times(scene: Scene) -> list[float]:
    """Return for each of those jobs how many seconds later its handler began."""
    return [row[0] for row in await scene.connection.fetch(_TIMES)]
