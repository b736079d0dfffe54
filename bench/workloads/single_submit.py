"""Single submit: one job a call, and beside it the same calls to a server that only answers."""

from collections.abc import Mapping, Sequence
from functools import partial

from bench.measure import SERVER, Window
from bench.ours import Ours, server
from bench.processes import Launch, Program, module
from bench.results import Column, Sample
from bench.stage import Scene, Stage
from bench.workloads.base import COSTS, FOREIGN, RATE, SCENE_S, Plan, Workload

CALLERS = 64
ECHO = "bare gRPC echo"
_WARM_S = 1.0


class SingleSubmit(Workload):
    """`SubmitJob` of one server, and the limit that gRPC sets."""

    name = "single-submit"
    title = "Single submit"
    about = (
        f"{CALLERS} callers in one client process call `SubmitJob` for one job at a time; each call"
        " returns after its commit. The echo is the same client and messages against a server that"
        " only answers: what gRPC in Python allows here. Jobs are counted in the tables."
    )
    columns = (
        RATE,
        Column("p50", "p50 ms", 1),
        Column("p99", "p99 ms", 1),
        Column("max", "max ms", 1),
        *COSTS,
        FOREIGN,
    )
    plot = "jobs_per_s"
    main = True

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """The product, and the echo beside it."""
        lasts_s = _WARM_S + stage.form.single_submit_s + SCENE_S
        return [
            Plan("jobqueue", "SubmitJob", partial(submitted_singly, stage), lasts_s),
            Plan(ECHO, "", partial(self._echo, stage), lasts_s, note="nothing is stored"),
        ]

    async def _echo(self, stage: Stage) -> Sample:
        async with stage.scene(Ours()) as scene:
            client = await _client(scene, module("bench.programs.echo"))
            window, said = await _measured(stage, scene, client)
            return Sample({**said, **window.values(said["calls"])})


async def submitted_singly(stage: Stage, **settings: object) -> Sample:
    """Measure one server with these settings."""
    async with stage.scene(Ours()) as scene:
        client = await _client(scene, server(scene.dsn, **settings))
        await stage.cluster.rest(scene.dsn, analyze=False)
        before = await scene.count(Ours().probes.left)
        window, said = await _measured(stage, scene, client)
        after = await scene.count(Ours().probes.left)
        return Sample({**said, **window.values(after - before)})


async def _client(scene: Scene, launch: Launch) -> Program:
    serving = await scene.start(launch, group=SERVER)
    port = (await serving.ready())["grpc_port"]
    client = await scene.start(module("bench.programs.singles", f"127.0.0.1:{port}"), talks=True)
    await client.ready()
    await _called(client, _WARM_S)
    return client


async def _measured(
    stage: Stage, scene: Scene, client: Program
) -> tuple[Window, Mapping[str, float]]:
    first = await scene.meter.read()
    said = await _called(client, stage.form.single_submit_s)
    return await scene.meter.since(first), said


async def _called(client: Program, seconds: float) -> Mapping[str, float]:
    await client.ask(callers=CALLERS, seconds=seconds)
    return await client.heard(seconds + 60)
