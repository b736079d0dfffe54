"""Drain: a backlog of no-op jobs, as fast as workers can."""

from collections.abc import Sequence
from functools import partial

from bench.form import Form
from bench.measure import WORKERS
from bench.ours import MANY_SLOTS, Ours
from bench.results import Sample
from bench.stage import Stage
from bench.systems import System
from bench.workloads.base import COSTS, FOREIGN, RATE, SCENE_S, Plan, Workload, watch_drain

_CONTESTANTS = 7
_STORED_PER_S = 10_000


class Drain(Workload):
    """Every contestant, at equal numbers of processes."""

    name = "drain"
    title = "Drain of no-op jobs"
    about = (
        "A backlog of no-op jobs with 100-byte payloads is stored, vacuumed and analyzed; then"
        " workers start. A batch of ours is what a claim brings at most: all slots of a small"
        " worker, a quarter of those of a large one. Measured from the first job taken to the last"
        " one done, both seen in the tables; start-up is not in it. A slow contestant gets fewer"
        " jobs, and whoever is not done within the box is measured by what it did."
    )
    columns = (RATE, *COSTS, FOREIGN)
    plot = "jobs_per_s"
    compares = True
    main = True

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """One cell per system and number of processes; ours also with larger batches."""
        systems: list[System] = [Ours(), Ours(concurrency=MANY_SLOTS)]
        systems += [s for s in stage.systems.values() if s.name != Ours().name]
        return [
            Plan(
                system.name,
                _variant(system, processes),
                partial(self._run, stage, system, processes),
                stage.form.box_s + SCENE_S,
                runs=stage.form.slow_runs if system.slow else None,
                note=f"{system.tuning}; keeps: {system.keeps}",
            )
            for processes in stage.form.drain_processes
            for system in systems
        ]

    def prepares_s(self, form: Form) -> float:
        """Each contestant's backlog is stored once, by its own means."""
        return _CONTESTANTS * min(form.load_s, form.drain_jobs / _STORED_PER_S)

    async def _run(self, stage: Stage, system: System, processes: int) -> Sample:
        template = await stage.loaded(system, stage.form.drain_jobs)
        async with stage.scene(system, template) as scene:
            await stage.cluster.rest(scene.dsn, analyze=False)
            for launch in system.workers(scene.dsn, processes):
                await scene.start(launch, group=WORKERS)
            return await watch_drain(scene, system.probes, stage.form.box_s)


def _variant(system: System, processes: int) -> str:
    batch = f", batch {system.batch}" if isinstance(system, Ours) else ""
    return f"{processes} process{'es' * (processes > 1)}{batch}"
