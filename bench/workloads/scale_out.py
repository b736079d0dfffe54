"""Scale-out: more and more workers, each with one job of ten milliseconds at a time."""

from collections.abc import Sequence
from functools import partial

from bench.fleet import start_server, start_workers, store
from bench.form import Form
from bench.ours import Ours
from bench.programs.handlers import DOZE_S
from bench.results import Column, Sample
from bench.stage import Stage
from bench.systems import QUEUE
from bench.workloads.base import COSTS, FOREIGN, RATE, SCENE_S, Plan, Workload, watch_drain
from jobqueue.domain.job import JobSpec
from jobqueue.store.queues import pause_queue
from jobqueue.store.wakeups import notify_queues

_IDEAL = 100.0
"""Jobs a second of one worker that does nothing but wait ten milliseconds for each."""

_DOZES = 4
"""Jobs for each worker where both kinds are at work at once."""

_START_S = 2.0
"""About how long the start and the end of one worker keep the cores busy."""

_ONE = ("--concurrency", "1")
_SERVED = "SELECT count(DISTINCT worker_id) FROM jobqueue.finished"
_CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND backend_type = 'client backend'
"""


class ScaleOut(Workload):
    """Direct workers, remote ones through one server, and both at once."""

    name = "scale-out"
    title = "Scale-out"
    about = (
        "Workers with `--concurrency 1` and jobs that wait ten milliseconds, so one worker could do"
        f" {_IDEAL:.0f} jobs/s at best; where both kinds are at work at once the jobs wait"
        f" {DOZE_S:.0f} seconds, so that processors are not what they queue for. Workers are"
        " registered and jobs stored before the queue is resumed. Throughput follows their number"
        " until the cores are full. Served: workers that ended at least one job. Connections: to"
        " PostgreSQL, of all programs."
    )
    columns = (
        RATE,
        Column("of_ideal", "% of ideal", 1),
        Column("served", "served"),
        Column("connections", "connections"),
        Column("busy_pct", "cores busy %"),
        *COSTS[:3],
        FOREIGN,
    )
    plot = "jobs_per_s"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """As many direct workers as the form says, one step after the other; then remote ones."""
        form = stage.form
        counts = [(n, 0) for n in form.scale_direct] + [(0, n) for n in form.scale_remote]
        if form.scale_both:
            counts.append((form.scale_both, form.scale_both))
        return [self._plan(stage, direct, remote) for direct, remote in counts]

    def _plan(self, stage: Stage, direct: int, remote: int) -> Plan:
        count = direct + remote
        return Plan(
            "jobqueue",
            variant(direct, remote),
            partial(self._run, stage, direct, remote),
            stage.form.scale_s + SCENE_S + _START_S * count,
            runs=1 if count > stage.form.scale_most_busy else None,
        )

    async def _run(self, stage: Stage, direct: int, remote: int) -> Sample:
        ours, count = Ours(), direct + remote
        async with stage.scene(ours) as scene:
            await pause_queue(scene.connection, QUEUE, paused=True)
            await start_workers(scene, direct, *_ONE)
            if remote:
                _, address = await start_server(scene)
                await start_workers(scene, remote, *_ONE, address=address)
            kind, jobs = _work(stage.form, direct, remote)
            await store(scene.dsn, [JobSpec(queue=QUEUE, type=kind)] * jobs)
            await pause_queue(scene.connection, QUEUE, paused=False)
            await notify_queues(scene.connection, [QUEUE])
            sample = await watch_drain(scene, ours.probes, stage.form.box_s)
            connections = await scene.count(_CONNECTIONS)
            served = await scene.count(_SERVED)
        ideal = count / DOZE_S if direct and remote else _IDEAL * count
        of_ideal = 100 * sample.values["jobs_per_s"] / ideal
        more = {"of_ideal": of_ideal, "served": served, "connections": connections}
        return Sample({**sample.values, **more})


def _work(form: Form, direct: int, remote: int) -> tuple[str, int]:
    """Return the type and the number of jobs.

    Two hundred workers with jobs of ten milliseconds would share the cores by chance, and who got
    none would show how long a queue for a processor is.
    """
    if direct and remote:
        return "doze", _DOZES * (direct + remote)
    return "sleep", int(_IDEAL * min(direct + remote, form.scale_most_busy) * form.scale_s)


def variant(direct: int, remote: int) -> str:
    """Return what the table calls so many workers of each kind."""
    kinds = ((direct, "direct"), (remote, "remote"))
    return " and ".join(f"{count} {kind}" for count, kind in kinds if count)
