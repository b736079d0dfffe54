"""Tuning: what the sizes that a user chooses do to a drain and to submitting."""

from collections.abc import Sequence
from functools import partial

from bench.measure import WORKERS
from bench.ours import Ours, worker
from bench.processes import Launch
from bench.results import Sample
from bench.stage import Stage
from bench.workloads.base import COSTS, FOREIGN, RATE, SCENE_S, Plan, Workload, watch_drain
from bench.workloads.batch_submit import submitted

CONCURRENCIES = (1, 10, 100, 500, 1000)
BATCHES = (10, 100, 1000)


class Tuning(Workload):
    """Ours alone, one thing changed at a time."""

    name = "tuning"
    title = "Sizes a user chooses"
    about = (
        "The same backlog as in the drain by one worker process, which claims as many jobs at once"
        " as it has free slots (`worker.concurrency`), or claims ahead of them"
        " (`worker.prefetch`). Then the same jobs submitted in process in batches of several sizes,"
        " four at once."
    )
    columns = (RATE, *COSTS, FOREIGN)
    plot = "jobs_per_s"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """Drains first."""
        lasts_s = stage.form.box_s + SCENE_S
        drains = [
            Plan("jobqueue", f"concurrency {n}", partial(self._drain, stage, n), lasts_s)
            for n in CONCURRENCIES
        ]
        ahead = partial(self._drain, stage, 10, 90)
        submits = [
            Plan("jobqueue", f"submit {size} a call", partial(self._submit, stage, size), lasts_s)
            for size in BATCHES
        ]
        return [*drains, Plan("jobqueue", "concurrency 10, prefetch 90", ahead, lasts_s), *submits]

    async def _drain(self, stage: Stage, concurrency: int, prefetch: int = 0) -> Sample:
        template, jobs = await stage.loaded(Ours(), stage.form.drain_jobs)
        async with stage.scene(Ours(), template) as scene:
            await stage.cluster.rest(scene.dsn, analyze=False)
            await scene.start(_launch(scene.dsn, concurrency, prefetch), group=WORKERS)
            return await watch_drain(scene, Ours().probes, jobs, stage.form.box_s)

    async def _submit(self, stage: Stage, size: int) -> Sample:
        async with stage.scene(Ours()) as scene:
            return await submitted(stage, scene, Ours(), Ours().submitter(scene.dsn), size)


def _launch(dsn: str, concurrency: int, prefetch: int) -> Launch:
    return worker(dsn, "--concurrency", str(concurrency), "--prefetch", str(prefetch))
