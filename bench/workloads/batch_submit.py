"""Batch submit: jobs stored a thousand at a time."""

from collections.abc import Sequence
from functools import partial

from bench.measure import SERVER
from bench.ours import CLIENT, MESSAGES, Ours, server
from bench.processes import Launch, module
from bench.results import Sample
from bench.stage import BATCH_JOBS, SUBMIT_CALLERS, Scene, Stage, submit_order
from bench.systems import System
from bench.workloads.base import COSTS, FOREIGN, RATE, SCENE_S, Plan, Workload

_PER_S = 15_000
"""What most systems store at least."""

WAYS = ("gRPC, client library", "gRPC, messages made beforehand")
IN_PROCESS = "in process"


class BatchSubmit(Workload):
    """Ours in process and through a server; each peer by its own library."""

    name = "batch-submit"
    title = "Batch submit"
    about = (
        f"One client process stores no-op jobs with 100-byte payloads, {BATCH_JOBS} a call,"
        f" {SUBMIT_CALLERS} calls at once; each call returns after its commit. Counted in the"
        " tables afterwards."
    )
    columns = (RATE, *COSTS, FOREIGN)
    plot = "jobs_per_s"
    compares = True
    main = True

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """Each way of ours, then each peer."""
        measured_s = min(stage.form.box_s, stage.form.batch_submit_jobs / _PER_S)
        lasts_s = measured_s + SCENE_S
        ways = [
            Plan("jobqueue", title, partial(self._through_server, stage, way), lasts_s)
            for way, title in zip((CLIENT, MESSAGES), WAYS, strict=True)
        ]
        direct = [
            Plan(
                system.name,
                IN_PROCESS if isinstance(system, Ours) else "",
                partial(self._direct, stage, system),
                lasts_s,
                runs=stage.form.slow_runs if system.slow else None,
                note=f"keeps: {system.keeps}",
            )
            for system in stage.systems.values()
        ]
        return [*ways, *direct]

    async def _direct(self, stage: Stage, system: System) -> Sample:
        async with stage.scene(system) as scene:
            return await submitted(stage, scene, system, system.submitter(scene.dsn))

    async def _through_server(self, stage: Stage, way: str) -> Sample:
        async with stage.scene(Ours()) as scene:
            started = await scene.start(server(scene.dsn), group=SERVER)
            port = (await started.ready())["grpc_port"]
            launch = module("bench.programs.submit", way, f"127.0.0.1:{port}")
            return await submitted(stage, scene, Ours(), launch)


async def submitted(
    stage: Stage, scene: Scene, system: System, launch: Launch, batch: int = BATCH_JOBS
) -> Sample:
    """Measure what a program stores, ``batch`` jobs a call, after its first calls."""
    program = await scene.start(launch, talks=True)
    await program.ready()
    # The first calls connect, plan and fill caches.
    await program.ask(**submit_order(2 * batch * SUBMIT_CALLERS, stage.form.box_s, batch))
    await program.heard(stage.form.box_s + 60)
    await stage.cluster.rest(scene.dsn, analyze=False)
    before = await scene.count(system.probes.left)
    first = await scene.meter.read()
    await program.ask(**submit_order(stage.form.batch_submit_jobs, stage.form.box_s, batch))
    await program.heard(stage.form.box_s + 60)
    window = await scene.meter.since(first)
    after = await scene.count(system.probes.left)
    return Sample(window.values(after - before))
