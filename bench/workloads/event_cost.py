"""Events: what the record of a job's transitions adds to its cost."""

import time
from collections.abc import Sequence
from functools import partial

import asyncpg

from bench.form import Form
from bench.measure import WORKERS
from bench.ours import Ours
from bench.processes import until
from bench.results import Sample
from bench.stage import Scene, Stage, submit_order
from bench.workloads.base import COSTS, FOREIGN, LOOK_S, SCENE_S, Plan, Workload, says

EVENTS_PER_JOB = 4
KEPT, DROPPED = "a job's life, events stored", "a job's life, events dropped"
ALONE = f"{EVENTS_PER_JOB} events alone"

_BATCH = 100
_INSERT = f"""
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt,
                                     token, worker_id)
    SELECT $1::bigint + n, 1, k.seq, k.was::jobqueue.job_state, k.became::jobqueue.job_state,
           k.why::jobqueue.move_reason, (k.seq > 1)::int, n, 1
    FROM generate_series(1, {_BATCH}) n
    CROSS JOIN (VALUES (1, NULL, 'PENDING', 'SUBMITTED'), (2, 'PENDING', 'ASSIGNED', 'CLAIMED'),
                       (3, 'ASSIGNED', 'RUNNING', 'STARTED'),
                       (4, 'RUNNING', 'DONE', 'COMPLETED')) k (seq, was, became, why)
    ORDER BY n, k.seq
"""
_DROP = """
    CREATE FUNCTION public.drop_event() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RETURN NULL; END';
    CREATE TRIGGER drop_event BEFORE INSERT ON jobqueue.job_events
        FOR EACH ROW EXECUTE FUNCTION public.drop_event();
"""
"""The product has no way to leave events out. The call of the trigger costs a little in turn."""

_STORED = "SELECT EXISTS (SELECT FROM jobqueue.job_events)"
_PER_S = 5_000
_ENDS_S = 120.0


class EventCost(Workload):
    """Jobs with their events and without; and the rows of events by themselves."""

    name = "event-cost"
    title = "Cost of events"
    about = (
        f"Jobs are submitted a thousand a call and drained by one process, all {EVENTS_PER_JOB}"
        " events of each stored; then the same with a trigger that drops every event before it is"
        " stored. The difference is what the history adds to a job, a little understated by the"
        " calls of the trigger. The last line is the upper bound: the rows of those events made and"
        f" stored by statements of their own, {_BATCH} jobs each, in one transaction."
    )
    columns = (COSTS[0], *COSTS[-2:], FOREIGN)
    plot = "db_us"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """The pair, and the rows alone."""
        life_s = stage.form.event_cost_jobs / _PER_S + 2 * SCENE_S
        alone_s = stage.form.event_cost_s + SCENE_S
        return [
            Plan("jobqueue", KEPT, partial(self._life, stage, kept=True), life_s),
            Plan("jobqueue", DROPPED, partial(self._life, stage, kept=False), life_s),
            Plan("jobqueue", ALONE, partial(self._alone, stage), alone_s),
        ]

    def prepares_s(self, _form: Form) -> float:
        """The second schema."""
        return SCENE_S

    async def _life(self, stage: Stage, *, kept: bool) -> Sample:
        ours, jobs = Ours(), stage.form.event_cost_jobs
        template = "" if kept else await stage.filled(ours, "events dropped", _drop_events)
        async with stage.scene(ours, template) as scene:
            client = await scene.start(ours.submitter(scene.dsn), talks=True)
            await client.ready()
            await stage.cluster.rest(scene.dsn, analyze=False)
            first = await scene.meter.read()
            await client.ask(**submit_order(jobs, _ENDS_S))
            await client.heard(_ENDS_S)
            await _drained(scene)
            window = await scene.meter.since(first)
            assert await scene.connection.fetchval(_STORED) is kept
        return Sample(window.values(jobs))

    async def _alone(self, stage: Stage) -> Sample:
        async with stage.scene(Ours()) as scene, scene.connection.transaction():
            insert = await scene.connection.prepare(_INSERT)
            await insert.fetch(0)
            first = await scene.meter.read()
            deadline = time.monotonic() + stage.form.event_cost_s
            batches = 0
            while time.monotonic() < deadline:
                batches += 1
                await insert.fetch(batches * _BATCH)
            window = await scene.meter.since(first)
        return Sample(window.values(batches * _BATCH))


async def _drop_events(connection: asyncpg.Connection) -> None:
    await connection.execute(_DROP)


async def _drained(scene: Scene) -> None:
    for launch in Ours().workers(scene.dsn, 1):
        await scene.start(launch, group=WORKERS)
    empty = partial(says, scene, Ours().probes.empty)
    await until(empty, within_s=_ENDS_S, what="the last job", pause_s=LOOK_S)
