"""Relay: how fast events reach Kafka."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial

from bench.errors import BenchError, TookTooLong
from bench.fleet import start_server, store
from bench.ours import Ours
from bench.processes import until
from bench.programs.talk import PAYLOAD_BYTES
from bench.results import Column, Sample
from bench.stage import Stage
from bench.systems import NOOP, QUEUE
from bench.workloads.base import COSTS, FOREIGN, Plan, Workload, says
from jobqueue.domain.job import JobSpec
from jobqueue.events.relay import CURSOR
from jobqueue.store.events import add_cursor
from tests.support.kafka import running_broker

_EVENTS_PER_JOB = 4
"""Of a job that succeeds at once: submitted, assigned, started, completed."""

_TOPIC = "jobqueue.events"
_SPEC = JobSpec(queue=QUEUE, type=NOOP, payload=b"x" * PAYLOAD_BYTES)
_PASSED = f"""
    SELECT count(*) FROM jobqueue.job_events e, jobqueue.event_cursors c
    WHERE c.name = '{CURSOR}' AND e.eid <= greatest(c.last_eid, c.window_eid)
"""


class RelaySpeed(Workload):
    """A backlog of events, from the outbox to a broker that keeps them in memory."""

    name = "relay"
    title = "Event relay"
    about = (
        "Jobs are submitted while no server runs; then a server starts and relays their events to a"
        " Kafka-protocol broker on this machine, which runs beside it and is counted with the"
        f" clients. To keep up with a drain it must relay {_EVENTS_PER_JOB} events for each job."
    )
    columns = (
        Column("events_per_s", "events/s"),
        Column("jobs_per_s", "as jobs/s"),
        *(Column(c.name, c.title.replace("/job", "/event"), c.digits) for c in COSTS),
        FOREIGN,
    )
    plot = "events_per_s"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """One cell."""
        return [Plan("jobqueue", "catching up", partial(self._run, stage))]

    async def _run(self, stage: Stage) -> Sample:
        events = stage.form.relay_events
        async with stage.scene(Ours()) as scene:
            with ExitStack() as stack:
                broker = stack.enter_context(running_broker())
                broker.create_topic(_TOPIC)
                await add_cursor(scene.connection, CURSOR)
                await store(scene.dsn, [_SPEC] * events)
                await stage.cluster.rest(scene.dsn)
                await start_server(scene, kafka_brokers=broker.address, kafka_topic=_TOPIC)
                begun = f"SELECT ({_PASSED}) > 0"
                await until(partial(says, scene, begun), within_s=60, what="the first event")
                before = await scene.count(_PASSED)
                first = await scene.meter.read()
                with suppress(TookTooLong):
                    ended = partial(says, scene, f"SELECT ({_PASSED}) >= {events}")
                    await until(ended, within_s=stage.form.box_s, what="the last event")
                window = await scene.meter.since(first)
                passed = await scene.count(_PASSED) - before
        if not passed:
            raise BenchError(f"all {events} events were relayed before the first look")
        values = window.values(passed)
        rate = values["jobs_per_s"]
        return Sample({**values, "events_per_s": rate, "jobs_per_s": rate / _EVENTS_PER_JOB})
