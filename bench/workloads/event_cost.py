"""Events: what the record of a job's transitions adds to its cost."""

import time
from collections.abc import Sequence
from functools import partial

from bench.ours import Ours
from bench.results import Sample
from bench.stage import Stage
from bench.workloads.base import COSTS, FOREIGN, SCENE_S, Plan, Workload

EVENTS_PER_JOB = 4
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


class EventCost(Workload):
    """The rows of events alone: no job moves."""

    name = "event-cost"
    title = "Cost of events"
    about = (
        f"The {EVENTS_PER_JOB} events of a job that succeeds at once, written {_BATCH} jobs a"
        " statement and nothing else, in one transaction: what the history adds to each job, rows,"
        " indexes and WAL. In the drain they are written by the statements that move the job, so"
        " they cost no statement and no commit there either."
    )
    columns = (COSTS[0], *COSTS[-2:], FOREIGN)
    plot = "db_us"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """One cell."""
        lasts_s = stage.form.event_cost_s + SCENE_S
        return [Plan("jobqueue", f"{EVENTS_PER_JOB} events", partial(self._run, stage), lasts_s)]

    async def _run(self, stage: Stage) -> Sample:
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
