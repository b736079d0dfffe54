"""Failures: the drain of jobs of which one in five fails once and is retried."""

from collections.abc import Sequence
from functools import partial

import asyncpg

from bench.fleet import start_server, store
from bench.measure import WORKERS
from bench.ours import Ours
from bench.programs.handlers import FAILS_ONCE
from bench.results import Column, Sample
from bench.stage import Stage
from bench.systems import QUEUE
from bench.workloads.base import (
    COSTS,
    FILL_PER_S,
    FOREIGN,
    RATE,
    SCENE_S,
    Plan,
    Workload,
    watch_drain,
)
from jobqueue.domain.job import JobSpec

_EVERY = 5
_BACKOFF = "UPDATE jobqueue.queues SET base_delay_s = 0.1, max_delay_s = 0.1"
_ATTEMPTS = "SELECT coalesce(avg(attempt), 0)::float8 FROM jobqueue.finished"
_NONE, _SOME = "no failures", "20 % fail once"


class Failures(Workload):
    """The price of a failure: a settlement, a wait, a promotion, a second attempt."""

    name = "failures"
    title = "Retries"
    about = (
        "A backlog of jobs is drained while a server promotes what is due; the backoff is 0.1 s. In"
        f" one cell every job succeeds, in the other one in {_EVERY} fails at its first attempt. A"
        " job counts once, when it is done."
    )
    columns = (RATE, Column("attempts", "attempts/job", 2), *COSTS, FOREIGN)
    plot = "jobs_per_s"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """With failures and without."""
        lasts_s = stage.form.box_s + stage.form.failure_jobs / FILL_PER_S + 2 * SCENE_S
        return [
            Plan("jobqueue", _NONE, partial(self._run, stage, failing=False), lasts_s),
            Plan("jobqueue", _SOME, partial(self._run, stage, failing=True), lasts_s),
        ]

    async def _run(self, stage: Stage, *, failing: bool) -> Sample:
        jobs = stage.form.failure_jobs
        ours = Ours()

        async def fill(connection: asyncpg.Connection) -> None:
            await connection.execute(_BACKOFF)

        template = await stage.filled(ours, "short backoff", fill)
        async with stage.scene(ours, template) as scene:
            await store(scene.dsn, [_spec(n, failing=failing) for n in range(jobs)])
            await stage.cluster.rest(scene.dsn)
            await start_server(scene)
            for launch in ours.workers(scene.dsn, 1):
                await scene.start(launch, group=WORKERS)
            sample = await watch_drain(scene, ours.probes, stage.form.box_s)
            attempts = float(await scene.connection.fetchval(_ATTEMPTS))
            return Sample({**sample.values, "attempts": attempts})


def _spec(number: int, *, failing: bool) -> JobSpec:
    fails = failing and number % _EVERY == 0
    return JobSpec(queue=QUEUE, type="flaky", payload=FAILS_ONCE if fails else b"succeeds")
