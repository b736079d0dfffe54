"""Memory: what server and worker hold while very many jobs pass through them."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from bench.fleet import start_server
from bench.measure import WORKERS, tree_rss
from bench.ours import CLIENT, Ours
from bench.processes import Program, module
from bench.results import Column, Point, Sample
from bench.stage import Scene, Stage, submit_order
from bench.workloads.base import FOREIGN, RATE, SCENE_S, Plan, Workload

_EARLY = 0.1
_MIB = 1024**2
_LOOK_S = 0.5
_JOBS_PER_S = 4_000


class Memory(Workload):
    """Jobs submitted through the server and run by a worker, all at once."""

    name = "memory"
    title = "Memory"
    about = (
        "A client submits batches through the server while a worker drains them. Resident memory of"
        f" both with all their processes, when {_EARLY:.0%} of the jobs have passed and at the end."
    )
    columns = (
        Column("jobs", "jobs"),
        RATE,
        Column("server_mib", "server MiB", 1),
        Column("server_growth", "server growth %", 1),
        Column("worker_mib", "worker MiB", 1),
        Column("worker_growth", "worker growth %", 1),
        FOREIGN,
    )

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """One cell, once: it is long."""
        lasts_s = min(stage.form.memory_jobs / _JOBS_PER_S, stage.form.memory_s) + 2 * SCENE_S
        return [Plan("jobqueue", "", partial(self._run, stage), lasts_s, runs=1)]

    async def _run(self, stage: Stage) -> Sample:
        jobs = stage.form.memory_jobs
        ours = Ours()
        async with stage.scene(ours) as scene:
            server, address = await start_server(scene)
            launches = ours.workers(scene.dsn, 1)
            workers = [await scene.start(launch, group=WORKERS) for launch in launches]
            client = await scene.start(module("bench.programs.submit", CLIENT, address), talks=True)
            await client.ready()
            first = await scene.meter.read()
            await client.ask(**submit_order(jobs, stage.form.memory_s))
            watch = _Watch(scene, {"server": [server], "worker": workers})
            await watch.until_done(jobs, stage.form.memory_s)
            window = await scene.meter.since(first)
        return Sample({**window.values(watch.done), **watch.growth()}, watch.series())


class _Watch:
    """Looks at the memory of programs, and at how many jobs are done."""

    def __init__(self, scene: Scene, programs: dict[str, Sequence[Program]]) -> None:
        self.done = 0
        self._scene = scene
        self._programs = programs
        self._seen: list[tuple[float, int, dict[str, float]]] = []

    async def until_done(self, jobs: int, within_s: float) -> None:
        """Look until all jobs are done or the time is over."""
        begun = time.monotonic()
        while self.done < jobs and (now := time.monotonic() - begun) < within_s:
            self.done = await self._scene.count("SELECT count(*) FROM jobqueue.finished")
            self._seen.append((now, self.done, self._resident()))
            await asyncio.sleep(_LOOK_S)

    def growth(self) -> dict[str, float]:
        """Return what each holds at the end, and by how much it grew since the early look."""
        early = next(held for _, done, held in self._seen if done >= _EARLY * self.done)
        last = self._seen[-1][2]
        sizes = {f"{name}_mib": size for name, size in last.items()}
        grown = {f"{name}_growth": 100 * (last[name] / early[name] - 1) for name in last}
        return sizes | grown

    def series(self) -> dict[str, list[Point]]:
        """Return memory over time."""
        return {
            f"{name} MiB": [(at, h[name]) for at, _, h in self._seen] for name in self._programs
        }

    def _resident(self) -> dict[str, float]:
        return {
            name: sum(tree_rss(program.pid) for program in programs) / _MIB
            for name, programs in self._programs.items()
        }
