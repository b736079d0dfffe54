"""Tuning: what the sizes that a user chooses do to a drain and to submitting."""

from collections.abc import Sequence
from functools import partial

from bench.measure import WORKERS
from bench.ours import Ours, worker
from bench.processes import Launch
from bench.results import Column, Sample
from bench.stage import Stage
from bench.workloads.base import COSTS, FOREIGN, RATE, SCENE_S, Plan, Workload, watch_drain
from bench.workloads.batch_submit import submitted
from bench.workloads.single_submit import submitted_singly

CONCURRENCIES = (1, 10, 100, 1000, 8000)
PREFETCHES = (0, 90)
"""With a concurrency of 10."""

BATCHES = (10, 100, 1000)
POOLS = (3, 5, 10, 30)


class Tuning(Workload):
    """Ours alone, one thing changed at a time; what docs/tuning.md says is made from it."""

    name = "tuning"
    title = "Sizes a user chooses"
    about = (
        "The same backlog as in the drain by one worker process, which claims as many jobs at once"
        " as it has free slots (`worker.concurrency`), or claims ahead of them"
        " (`worker.prefetch`). Then the same jobs submitted in process in batches of several sizes,"
        " four at once; and one a call through a server with several sizes of its pool"
        " (`db.pool_size`), by 64 callers."
    )
    columns = (RATE, Column("p99", "p99 ms", 1), *COSTS, FOREIGN)
    plot = "jobs_per_s"
    short = False

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """Drains first."""
        lasts_s = stage.form.box_s + SCENE_S
        drains = [(n, 0) for n in CONCURRENCIES] + [(10, ahead) for ahead in PREFETCHES if ahead]
        runs = {
            **{drain(n, ahead): partial(self._drain, stage, n, ahead) for n, ahead in drains},
            **{batch(size): partial(self._submit, stage, size) for size in BATCHES},
            **{pool(n): partial(submitted_singly, stage, db_pool_size=n) for n in POOLS},
        }
        return [Plan("jobqueue", variant, run, lasts_s) for variant, run in runs.items()]

    async def _drain(self, stage: Stage, concurrency: int, prefetch: int) -> Sample:
        template = await stage.loaded(Ours(), stage.form.drain_jobs)
        async with stage.scene(Ours(), template) as scene:
            await stage.cluster.rest(scene.dsn, analyze=False)
            await scene.start(_launch(scene.dsn, concurrency, prefetch), group=WORKERS)
            return await watch_drain(scene, Ours().probes, stage.form.box_s)

    async def _submit(self, stage: Stage, size: int) -> Sample:
        async with stage.scene(Ours()) as scene:
            return await submitted(stage, scene, Ours(), Ours().submitter(scene.dsn), size)


def drain(concurrency: int, prefetch: int = 0) -> str:
    """Return what the table calls a drain."""
    return f"concurrency {concurrency}" + (f", prefetch {prefetch}" if prefetch else "")


def batch(size: int) -> str:
    """Return what the table calls submitting so many jobs a call."""
    return f"submit {size} a call"


def pool(size: int) -> str:
    """Return what the table calls a server with so large a pool."""
    return f"pool of {size}"


def _launch(dsn: str, concurrency: int, prefetch: int) -> Launch:
    return worker(dsn, "--concurrency", str(concurrency), "--prefetch", str(prefetch))
