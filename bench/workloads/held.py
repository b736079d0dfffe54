"""Held snapshot: throughput while somebody keeps a transaction open, as reports and dumps do."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from bench.cluster import connected
from bench.errors import BenchError
from bench.fleet import start_server
from bench.measure import WORKERS, Window
from bench.ours import MANY_SLOTS, Ours
from bench.processes import Program, until
from bench.results import Column, Point, Sample
from bench.stage import BATCH_JOBS, Scene, Stage, submit_order
from bench.systems import System
from bench.workloads.base import FOREIGN, SCENE_S, Plan, Workload, says

_POINT_S = 1.0
_OFFER_S = 0.1
"""How often jobs are offered: they come a few at a time, not in heaps."""
_STORE_S = 10.0

_START_S = 60.0
_LAST = 3
"""The loss is judged by the last third of the held time: it grows."""

DEPTH = 200 * BATCH_JOBS
"""Twice what anybody does in the second by which PostgreSQL's statistics are late. Who runs dry
rests, and what a session did before a rest is in them ten seconds later."""
FULL_SPEED = "full speed"


class HeldSnapshot(Workload):
    """Whoever can count cheaply what is done takes part."""

    name = "held-snapshot"
    title = "Held snapshot"
    about = (
        "One worker process drains while a client keeps the backlog filled, or offers a fixed rate;"
        " a `jq-server` with its loops runs beside ours. Everybody has the settings of the fastest"
        " drain, ours at a fixed rate those it comes with."
        " After a while another connection opens a REPEATABLE READ transaction with a transaction"
        " id and leaves it open: dead rows cannot be removed. Held is the last third of that time."
        " What is done is read once a second from a sequence (ours) or from PostgreSQL's"
        " statistics, which are up to a second old: counting would read all dead rows."
    )
    columns = (
        Column("clean_per_s", "clean jobs/s"),
        Column("held_per_s", "held jobs/s"),
        Column("loss_pct", "loss %", 1),
        Column("clean_db_us", "clean database µs/job", 1),
        Column("held_db_us", "held database µs/job", 1),
        FOREIGN,
    )
    plot = "loss_pct"
    compares = True

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """Full speed for everybody; the fixed rate for ours."""
        form = stage.form
        known = [system for system in stage.systems.values() if system.probes.done]
        peers = [system for system in known if system.name != Ours().name]
        return [
            self._plan(stage, system, rate, held_s)
            for system, rate, held_s in (
                (Ours(concurrency=MANY_SLOTS), 0, form.held_s),
                (Ours(), form.held_rate, form.held_rate_s),
                *((peer, 0, form.held_s) for peer in peers[: form.held_peers]),
            )
        ]

    def _plan(self, stage: Stage, system: System, rate: int, held_s: float) -> Plan:
        variant = f"{rate}/s" if rate else FULL_SPEED
        run = partial(self._run, stage, system, rate, held_s)
        lasts_s = stage.form.held_warm_s + stage.form.held_clean_s + held_s + 2 * SCENE_S
        return Plan(system.name, variant, run, lasts_s, runs=1)

    async def _run(self, stage: Stage, system: System, rate: int, held_s: float) -> Sample:
        async with stage.scene(system) as scene:
            feed = _Feed(scene, system, rate)
            await feed.start()
            if isinstance(system, Ours):
                await start_server(scene)
            for launch in system.workers(scene.dsn, 1):
                await scene.start(launch, group=WORKERS)
            taken = partial(says, scene, system.probes.taken)
            await until(taken, within_s=_START_S, what="the first job")
            await feed.run(stage.form.held_warm_s)
            feed.restart()
            clean, done = await _phase(scene, feed, stage.form.held_clean_s)
            async with _snapshot(scene.dsn):
                await feed.run(held_s * (_LAST - 1) / _LAST)
                held, held_done = await _phase(scene, feed, held_s / _LAST)
        values = _compared(clean, done, held, held_done)
        return Sample(values, {"jobs/s": feed.series})


def _compared(clean: Window, done: int, held: Window, held_done: int) -> dict[str, float]:
    if not done:
        raise BenchError("nothing was done before the snapshot")
    before, after = done / clean.seconds, held_done / held.seconds
    return {
        "clean_per_s": before,
        "held_per_s": after,
        "loss_pct": 100 * (1 - after / before),
        "clean_db_us": clean.values(done)["db_us"],
        "held_db_us": held.values(held_done)["db_us"],
        "foreign_pct": max(clean.foreign_pct, held.foreign_pct),
    }


async def _phase(scene: Scene, feed: "_Feed", seconds: float) -> tuple[Window, int]:
    before = feed.done
    first = await scene.meter.read()
    await feed.run(seconds)
    return await scene.meter.since(first), feed.done - before


@asynccontextmanager
async def _snapshot(dsn: str) -> AsyncIterator[None]:
    async with (
        connected(dsn) as connection,
        connection.transaction(isolation="repeatable_read"),
    ):
        await connection.execute("SELECT pg_current_xact_id()")
        yield


class _Feed:
    """Keeps a backlog filled, or offers a rate, and notes what is done meanwhile."""

    def __init__(self, scene: Scene, system: System, rate: int) -> None:
        self.series: list[Point] = []
        self.done = 0
        self._scene = scene
        self._system = system
        self._rate = rate
        self._stored = 0
        self._offered = 0
        self._begun = time.monotonic()
        self._noted = 0.0, 0
        self._client: Program | None = None

    async def start(self) -> None:
        """Start the client, and store a first backlog unless the rate is fixed."""
        self._client = await self._scene.start(self._system.submitter(self._scene.dsn), talks=True)
        await self._client.ready()
        await self._store(1 if self._rate else DEPTH)

    def restart(self) -> None:
        """Begin the series, and the fixed rate, anew."""
        self.series.clear()
        self._noted = 0.0, self.done
        self._begun = time.monotonic()
        self._offered = 0

    async def run(self, seconds: float) -> None:
        """Feed for so long."""
        ends = time.monotonic() + seconds
        while (now := time.monotonic()) < ends:
            await self._look(now)
            await self._store(self._wanted(now))
            await asyncio.sleep(max(now + _OFFER_S - time.monotonic(), 0))
        await self._look(time.monotonic())

    def _wanted(self, now: float) -> int:
        if self._rate:
            return int((now - self._begun + _OFFER_S) * self._rate) - self._offered
        missing = DEPTH - (self._stored - self.done)
        return missing - missing % BATCH_JOBS

    async def _look(self, now: float) -> None:
        for program in self._scene.programs:
            program.check()
        self.done = await self._scene.count(self._system.probes.done)
        at, (last, before) = now - self._begun, self._noted
        if at - last >= _POINT_S * 0.9:
            self.series.append((at, (self.done - before) / (at - last)))
            self._noted = at, self.done

    async def _store(self, jobs: int) -> None:
        if jobs <= 0:
            return
        assert self._client is not None, "it is started"
        await self._client.ask(**submit_order(jobs, _STORE_S))
        said = await self._client.heard(120)
        self._stored += said["stored"]
        self._offered += said["stored"]
