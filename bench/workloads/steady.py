"""Steady state: a mixture of jobs offered at a fixed rate, whatever becomes of them."""

import asyncio
from collections.abc import Sequence
from functools import partial

from bench.fleet import start_server, start_workers
from bench.ours import Ours
from bench.processes import module
from bench.results import Column, Sample
from bench.stage import Stage
from bench.stats import percentiles
from bench.workloads.base import COSTS, FOREIGN, RATE, SCENE_S, Plan, Workload

_WAITS = """
    SELECT extract(epoch FROM f.started_at - j.created_at)::float8
    FROM jobqueue.jobs j JOIN jobqueue.finished f USING (id)
    WHERE f.attempt = 1 AND j.not_before IS NULL
"""
_BACKOFF = "UPDATE jobqueue.queues SET base_delay_s = 0.5, max_delay_s = 0.5"


class SteadyState(Workload):
    """Submit, wait, run, retry, all at once, below what the machine can do."""

    name = "steady"
    title = "Mixed steady state"
    about = (
        "Jobs are submitted one a call at a fixed rate by a client that does not wait for answers:"
        " all ten priorities, one in ten delayed by a second, one in twenty failing once. The wait"
        " is from the submission of an undelayed job to its first start, by the database's clock."
        " Unfinished: jobs that were left two seconds after the last call."
    )
    columns = (
        Column("offered_per_s", "offered/s"),
        RATE,
        Column("unfinished", "unfinished"),
        Column("p50", "wait p50 ms", 1),
        Column("p99", "wait p99 ms", 1),
        Column("max", "wait max ms", 1),
        *COSTS,
        FOREIGN,
    )
    plot = "p99"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """One cell a rate."""
        lasts_s = stage.form.steady_s + 4 * SCENE_S
        return [
            Plan("jobqueue", f"{rate}/s", partial(self._run, stage, rate), lasts_s)
            for rate in stage.form.steady_rates
        ]

    async def _run(self, stage: Stage, rate: int) -> Sample:
        seconds = stage.form.steady_s
        async with stage.scene(Ours()) as scene:
            await scene.connection.execute(_BACKOFF)
            _, address = await start_server(scene)
            await start_workers(scene, 1, "--concurrency", "100")
            client = await scene.start(module("bench.programs.mix", address), talks=True)
            await client.ready()
            first = await scene.meter.read()
            await client.ask(rate=rate, seconds=seconds)
            said = await client.heard(seconds + 60)
            await asyncio.sleep(2)
            window = await scene.meter.since(first)
            done = await scene.count("SELECT count(*) FROM jobqueue.finished")
            left = await scene.count(Ours().probes.left)
            waits = [row[0] for row in await scene.connection.fetch(_WAITS)]
        values = window.values(done) | {"jobs_per_s": done / said["seconds"]}
        offered = {"offered_per_s": said["calls"] / said["seconds"], "unfinished": left}
        return Sample({**values, **offered, **percentiles(waits, scale=1000)})
