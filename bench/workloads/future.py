"""Future jobs: a few come due beside very many that do not."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial

import asyncpg

from bench.fleet import start_server, start_workers, store
from bench.form import Form
from bench.ours import Ours
from bench.processes import until
from bench.results import Column, Sample
from bench.seed import add_scheduled
from bench.stage import Stage
from bench.stats import percentiles
from bench.systems import NOOP, QUEUE
from bench.workloads.base import COSTS, FILL_PER_S, FOREIGN, SCENE_S, Plan, Workload, says
from jobqueue.domain.job import JobSpec

DUE = 10
_DELAY_S = 1.0
_INTERVAL_S = 0.5  # the scheduler's, by default
_ENDS_S = 60.0
_LATE = """
    SELECT extract(epoch FROM f.started_at - j.not_before)::float8
    FROM jobqueue.jobs j JOIN jobqueue.finished f USING (id)
"""


class FutureJobs(Workload):
    """Ten jobs that come due, alone and in a crowd."""

    name = "future"
    title = "Due jobs beside future ones"
    about = (
        f"{DUE} jobs at a time with a delay of {_DELAY_S:.0f} s, at random moments, beside jobs"
        " that are scheduled for tomorrow. The latency is from the moment a job is due to its"
        " start, both by the clock of the database; the scheduler looks every"
        f" {1000 * _INTERVAL_S:.0f} ms."
    )
    columns = (
        Column("p50", "p50 ms", 1),
        Column("p95", "p95 ms", 1),
        Column("max", "max ms", 1),
        *COSTS[:3],
        FOREIGN,
    )
    plot = "p95"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """None and many."""
        lasts_s = stage.form.future_rounds * (_DELAY_S + _INTERVAL_S) + 2 * SCENE_S
        return [
            Plan("jobqueue", f"{many:,} future jobs", partial(self._run, stage, many), lasts_s)
            for many in (0, stage.form.future_jobs)
        ]

    def prepares_s(self, form: Form) -> float:
        """Every row is inserted."""
        return form.future_jobs / FILL_PER_S

    async def _run(self, stage: Stage, many: int) -> Sample:
        async def fill(connection: asyncpg.Connection) -> None:
            await add_scheduled(connection, many)

        template = await stage.filled(Ours(), f"{many} future jobs", fill)
        async with stage.scene(Ours(), template) as scene:
            await start_server(scene)
            await start_workers(scene, 1)
            first = await scene.meter.read()
            for round_ in range(1, stage.form.future_rounds + 1):
                # Else each round would begin, and come due, at the same moment between two looks.
                await asyncio.sleep(random.uniform(0, _INTERVAL_S))  # noqa: S311 - no secret
                await store(scene.dsn, [_SPEC] * DUE)
                done = f"SELECT count(*) = {DUE * round_} FROM jobqueue.finished"
                await until(partial(says, scene, done), within_s=_ENDS_S, what="the due jobs")
            window = await scene.meter.since(first)
            late = [row[0] for row in await scene.connection.fetch(_LATE)]
            return Sample({**percentiles(late, scale=1000), **window.values(len(late))})


_SPEC = JobSpec(queue=QUEUE, type=NOOP, payload=b"due", delay_s=_DELAY_S)
