"""Recovery: how soon all goes on after a worker, the database or a connection is lost."""

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg

from bench.cluster import connected
from bench.errors import BenchError
from bench.fleet import start_server, start_workers, store
from bench.ours import Ours
from bench.processes import Program, until
from bench.results import Column, Sample
from bench.stage import Scene, Stage
from bench.stats import percentile, percentiles
from bench.systems import QUEUE
from bench.workloads.base import FOREIGN, SCENE_S, Plan, Workload, says
from bench.workloads.pickup import ALL_DONE, PER_SECOND, pick_up_times, submit_at_random
from jobqueue.client import AsyncClient
from jobqueue.domain.job import JobSpec
from tests.support.redis import RedisServer

KILLED, STOPPED = "worker killed, to FAILED", "worker told to stop, to PENDING"
RESTARTED, DEAF = "database restarted, to a claim", "wake-ups cut, to the handler"
LEADER_KILLED = "acting server killed, to FAILED"
LEADER_PAUSED = "acting server paused, to FAILED"
LEASE_S = 5.0
LOCK_S = 3.0
TICK_S = 1.0
"""Between two looks of the reaper; the default."""
DEAF_S = 5.0

_HELD = 10
_DELAY_S = 0.5
_ENDS_S = 60.0
_HOLDING = ("--concurrency", str(_HELD))
_PREFETCHING = ("--concurrency", str(_HELD // 2), "--prefetch", str(_HELD - _HELD // 2))
_FAR_S = 600.0
"""A lease that ends when we say so, and not before."""
_LOCK, _ACTS = "reaper", "acting: "
"""Of the lines of a server's log."""
_HANGS = JobSpec(queue=QUEUE, type="hang")
_BACKOFF = f"UPDATE jobqueue.queues SET base_delay_s = {_DELAY_S}, max_delay_s = {_DELAY_S}"
_NOW = "SELECT clock_timestamp()"
_TAKEN = "SELECT count(*) FROM jobqueue.leases"
_EXPIRIES = """
    SELECT l.id, l.expires_at FROM jobqueue.leases l JOIN jobqueue.workers w USING (worker_id)
    WHERE w.pid = $1
"""
_END_LEASES = """
    UPDATE jobqueue.leases l SET expires_at = clock_timestamp() FROM jobqueue.workers w
    WHERE w.worker_id = l.worker_id AND w.pid = $1
"""
_EXPIRED = """
    SELECT extract(epoch FROM e.at - l.expires_at)::float8 FROM jobqueue.job_events e
    JOIN unnest($1::bigint[], $2::timestamptz[]) l (id, expires_at) ON l.id = e.job
    WHERE e.reason = 'LEASE_EXPIRED' AND e.to_status = 'FAILED'
"""
_AGAIN = """
    SELECT extract(epoch FROM claimed_at - ready_at)::float8 FROM jobqueue.leases WHERE attempt > 1
"""
_REAPED = """
    SELECT extract(epoch FROM at - $1::timestamptz)::float8 FROM jobqueue.job_events
    WHERE reason = 'LEASE_EXPIRED' AND to_status = 'FAILED' AND at > $1::timestamptz
"""
_RELEASED = """
    SELECT extract(epoch FROM at - $1::timestamptz)::float8 FROM jobqueue.job_events
    WHERE reason = 'RELEASED' AND to_status = 'PENDING' AND at > $1::timestamptz
"""
_CLAIMED_SINCE = """
    SELECT extract(epoch FROM min(at) - pg_postmaster_start_time())::float8
    FROM jobqueue.job_events WHERE reason = 'CLAIMED' AND at > pg_postmaster_start_time()
"""
_CUT = """
    SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'jq-worker'
"""


class Recovery(Workload):
    """Each kind of loss that N-7 names, as often as the form says."""

    name = "recovery"
    title = "Recovery"
    about = (
        f"Workers with {_HELD} jobs each and a lease of {LEASE_S:.0f} s are killed with SIGKILL:"
        " the time is from the end of the lease to the event that says FAILED, and from the end of"
        " the retry's delay to the next claim. Workers that run some jobs and prefetched others are"
        " sent SIGTERM and give them no time: from the signal to the event that says PENDING."
        " PostgreSQL is stopped for a while under a backlog: from the start of its new process to"
        " the first claim. Connections that listen are ended, and from"
        f" {DEAF_S:.0f} s later on jobs are submitted as in the idle pick-up: from `submit` to the"
        " handler. Of two servers with Redis, that which holds the reaper's lock, of"
        f" {LOCK_S:.0f} s, is killed or stopped with SIGSTOP for longer than that; right after it"
        " leases end: from the signal to the event that says FAILED. All but the fourth by the"
        " clock and the tables of the database."
    )
    columns = (
        Column("p50", "p50 ms"),
        Column("p99", "p99 ms"),
        Column("max", "max ms"),
        Column("faults", "faults"),
        Column("jobs", "jobs measured"),
        Column("again_p99", "claimed again, p99 ms"),
        FOREIGN,
    )
    plot = "p99"

    def plans(self, stage: Stage) -> Sequence[Plan]:
        """One cell a loss."""
        form = stage.form
        faults = form.recovery_faults
        killed_s = LEASE_S + faults + 3 * SCENE_S
        restarted_s = faults * (form.recovery_outage_s + 3) + 2 * SCENE_S
        deaf_s = DEAF_S + form.pickup_jobs / PER_SECOND + 2 * SCENE_S
        leaderless_s = faults * (LOCK_S + TICK_S) + SCENE_S
        losses: Sequence[tuple[str, Callable[[Stage], Awaitable[Sample]], float]] = (
            (KILLED, _killed, killed_s),
            (STOPPED, _stopped, faults * 2 + 2 * SCENE_S),
            (RESTARTED, _restarted, restarted_s),
            (DEAF, _deaf, deaf_s),
            (LEADER_KILLED, partial(_leaderless, signal.SIGKILL), leaderless_s),
            (LEADER_PAUSED, partial(_leaderless, signal.SIGSTOP), leaderless_s),
        )
        return [Plan("jobqueue", name, partial(run, stage), s) for name, run, s in losses]


async def _killed(stage: Stage) -> Sample:
    faults = stage.form.recovery_faults
    async with stage.scene(Ours()) as scene:
        first = await scene.meter.read()
        await scene.connection.execute(_BACKOFF)
        await start_server(scene)
        victims = await _holding(
            scene, faults, *_HOLDING, lease_duration_s=LEASE_S, lease_renew_interval_s=1
        )
        spare = (await start_workers(scene, 1, "--concurrency", str(_HELD * faults)))[0]
        expiries: list[asyncpg.Record] = []
        for victim in victims:
            await asyncio.sleep(random.uniform(0, 1))  # noqa: S311 - no secret
            pid = victim.pid
            await _kill(scene, victim)
            expiries += await scene.connection.fetch(_EXPIRIES, pid)
        again = f"SELECT ({_TAKEN} WHERE attempt > 1) = {_HELD * faults}"
        await until(partial(says, scene, again), within_s=_ENDS_S, what="the second attempts")
        window = await scene.meter.since(first)
        late = await _seconds(scene, _EXPIRED, *zip(*expiries, strict=True))
        waits = await _seconds(scene, _AGAIN)
        await _kill(scene, spare)
    more = {"again_p99": 1000 * percentile(waits, 99), "foreign_pct": window.foreign_pct}
    return _sample(late, faults, _HELD, **more)


async def _stopped(stage: Stage) -> Sample:
    """Nobody is there to claim again what is given back."""
    late: list[float] = []
    async with stage.scene(Ours()) as scene:
        first = await scene.meter.read()
        for _ in range(stage.form.recovery_faults):
            no_time = {"worker_shutdown_grace_period_s": 0, "worker_kill_grace_s": 0}
            (worker,) = await _holding(scene, 1, *_PREFETCHING, **no_time)
            told_at = await scene.connection.fetchval(_NOW)
            worker.tell(signal.SIGTERM)
            back = f"SELECT ({_TAKEN}) = 0"
            await until(partial(_answers, scene, back), within_s=_ENDS_S, what="the release")
            late += await _seconds(scene, _RELEASED, told_at)
            await scene.end(worker)
            await scene.connection.execute("DELETE FROM jobqueue.ready")
        window = await scene.meter.since(first)
    return _sample(late, stage.form.recovery_faults, _HELD, foreign_pct=window.foreign_pct)


async def _restarted(stage: Stage) -> Sample:
    form = stage.form
    late: list[float] = []
    async with stage.scene(Ours()) as scene:
        await start_server(scene)
        seconds = form.recovery_faults * (form.recovery_outage_s + _ENDS_S)
        await store(scene.dsn, [JobSpec(queue=QUEUE, type="sleep")] * int(100 * seconds))
        await start_workers(scene, 1, "--concurrency", "1")
        await until(partial(says, scene, Ours().probes.taken), within_s=_ENDS_S, what="a claim")
        for _ in range(form.recovery_faults):
            await stage.cluster.restart(form.recovery_outage_s)
            late.append(await _first_claim(scene))
    return _sample(late, form.recovery_faults, 1)


async def _first_claim(scene: Scene) -> float:
    """Return when the first job was claimed, from the start of the database's process on."""
    async with connected(scene.dsn) as connection:
        claimed: list[float] = []

        async def look() -> bool:
            for program in scene.programs:
                program.check()
            claimed[:] = [s for s in [await connection.fetchval(_CLAIMED_SINCE)] if s is not None]
            return bool(claimed)

        await until(look, within_s=_ENDS_S, what="a claim")
        return claimed[0]


async def _deaf(stage: Stage) -> Sample:
    async with stage.scene(Ours()) as scene:
        _, address = await start_server(scene)
        await start_workers(scene, 1)
        first = await scene.meter.read()
        if not await scene.count(_CUT):
            raise BenchError("nobody listened")
        await asyncio.sleep(DEAF_S)
        async with AsyncClient(address) as client:
            await submit_at_random(client, stage.form.pickup_jobs)
        await until(partial(says, scene, ALL_DONE), within_s=_ENDS_S, what="the last job")
        window = await scene.meter.since(first)
        times = await pick_up_times(scene)
    return _sample(times, 1, stage.form.pickup_jobs, foreign_pct=window.foreign_pct)


async def _leaderless(number: signal.Signals, stage: Stage) -> Sample:
    """Take the acting server away again and again, and give it back as it was or as a new one."""
    faults = stage.form.recovery_faults
    late: list[float] = []
    async with stage.scene(Ours()) as scene, _redis(scene) as start:
        first = await scene.meter.read()
        victims = await _holding(scene, faults, *_HOLDING, lease_duration_s=_FAR_S)
        servers = [await start() for _ in range(2)]
        for victim in victims:
            pid = victim.pid
            await _kill(scene, victim)
            leader = await _leader(servers)
            told_at = await scene.connection.fetchval(_NOW)
            leader.tell(number)
            await scene.connection.execute(_END_LEASES, pid)
            late += await _reaped(scene, told_at)
            if number is signal.SIGSTOP:
                leader.tell(signal.SIGCONT)
                continue
            await scene.end(leader)
            servers = [each for each in servers if each is not leader] + [await start()]
        window = await scene.meter.since(first)
    return _sample(late, faults, _HELD, foreign_pct=window.foreign_pct)


@asynccontextmanager
async def _redis(scene: Scene) -> AsyncIterator[Callable[[], Awaitable[Program]]]:
    """Yield how to start servers that share a Redis."""
    with TemporaryDirectory(prefix="jobqueue-bench-redis-") as folder:
        redis = await asyncio.to_thread(RedisServer, Path(folder))

        async def start() -> Program:
            locks = {"redis_addr": redis.addr, "redis_lock_ttl_ms": round(LOCK_S * 1000)}
            return (await start_server(scene, **locks))[0]

        try:
            yield start
        finally:
            await asyncio.to_thread(redis.kill)


async def _leader(servers: Sequence[Program]) -> Program:
    """Wait until one server acts and every other one stands by; return the first."""
    acting: list[Program] = []

    async def one_acts() -> bool:
        said = {server: _last_of_lock(server) for server in servers}
        acting[:] = [server for server, message in said.items() if message.startswith(_ACTS)]
        return all(said.values()) and len(acting) == 1

    await until(one_acts, within_s=_ENDS_S, what="one acting server")
    return acting[0]


def _last_of_lock(server: Program) -> str:
    """Return what a server said last about the reaper's lock."""
    whole, _, _ = server.text().rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
    return next((each["message"] for each in reversed(lines) if each.get("lock") == _LOCK), "")


async def _reaped(scene: Scene, since: datetime) -> list[float]:
    """Wait until every job of one worker is taken back; return how long after ``since``."""
    late: list[float] = []

    async def all_are() -> bool:
        late[:] = await _seconds(scene, _REAPED, since)
        return len(late) >= _HELD

    await until(all_are, within_s=_ENDS_S, what="that leases are taken back")
    return late


async def _holding(scene: Scene, count: int, *flags: str, **settings: object) -> Sequence[Program]:
    """Return workers that have as many jobs as they may, and keep them."""
    workers = await start_workers(scene, count, *flags, address="", **settings)
    await store(scene.dsn, [_HANGS] * (_HELD * count))
    held = f"SELECT ({_TAKEN}) = {_HELD * count}"
    await until(partial(says, scene, held), within_s=_ENDS_S, what="that they hold jobs")
    return workers


async def _kill(scene: Scene, worker: Program) -> None:
    worker.send(signal.SIGKILL)
    await scene.end(worker)


async def _answers(scene: Scene, question: str) -> bool:
    """Ask, whether or not programs have ended."""
    return bool(await scene.connection.fetchval(question))


async def _seconds(scene: Scene, question: str, *values: object) -> list[float]:
    return [row[0] for row in await scene.connection.fetch(question, *values)]


def _sample(late: Sequence[float], faults: int, jobs: int, **more: float) -> Sample:
    """Sum up what ``jobs`` met at each fault; what did not come about is no measurement."""
    if len(late) != faults * jobs:
        raise BenchError(f"{len(late)} of {faults * jobs} were seen")
    counts = {"faults": faults, "jobs": len(late)}
    return Sample({**percentiles(late, scale=1000), **counts, **more})
