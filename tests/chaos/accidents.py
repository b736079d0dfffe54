"""What is done to a system. Each accident returns whether it happened: one that was not is none."""

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import asyncpg
import psutil

from jobqueue.store.faults import DRIVER_ERRORS
from tests.chaos.network import Weather
from tests.chaos.system import LEASE_S, OURS, Slot, System
from tests.support.programs import Program
from tests.support.waiting import eventually

KEEPERS = ("jobqueue.lease.keeper_process", "jobqueue.remote.keeper_process")
_READY_S = 30.0
_SEAM_S, _SEAM_TRIES = 10.0, 3
_REFUSALS = 10
_OTHERS_FAULT = (*DRIVER_ERRORS, TimeoutError)
AT_SERVERS = frozenset(
    {
        "submit_jobs",
        "cancel_job",
        "retry_job",
        "promote_jobs",
        "lock_expired_leases",
        "read_event_window",
        "move_event_cursor",
        "start_leases",
        "roll_stats",
    }
)
"""Statements that workers on the database do not send."""

_STEPS = (
    "submit_jobs",
    "claim_jobs",
    "start_leases",
    "renew_leases",
    "complete_leases",
    "settle_leases",
    "cancel_job",
    "retry_job",
    "promote_jobs",
    "read_event_window",
    "move_event_cursor",
)
SEAMS = (
    *(f"seam:{step}/{moment}=kill@2" for step in _STEPS for moment in ("before", "after")),
    "seam:lock_expired_leases/open=kill@1",
    "seam:settle_leases/open=kill@1",
    "seam:submit_jobs/after=cut@2",
    "seam:claim_jobs/after=cut@2",
    "seam:complete_leases/after=cut@2",
    "seam:settle_leases/after=cut@2",
)
"""Every step of a job, before and after its commit; for take-overs also between the two."""

_HELD = """
    SELECT count(*) FROM jobqueue.leases l JOIN jobqueue.worker_names n USING (worker_id)
    WHERE n.name = $1
"""
_TERMINATE = """
    SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND application_name LIKE $1 AND application_name <> $2
"""


@dataclass
class Journal:
    """What has happened, and when: counts by kind, and moments that recovery is measured from."""

    landed: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    killed: list[tuple[float, str]] = field(default_factory=list)
    """When which worker was killed, by name."""
    long_pauses: int = 0
    """Those that lasted longer than a lease."""
    back: list[float] = field(default_factory=list)
    """When PostgreSQL took connections again."""

    def count(self, *kinds: str) -> int:
        """Return how many of these kinds landed; a kind ends where its name has a colon."""
        return sum(n for name, n in self.landed.items() if name.split(":")[0] in kinds)


Accident = Callable[[], Awaitable[bool]]


class Accidents:
    """All that can be done to one system, by name."""

    def __init__(self, system: System, rng: random.Random, journal: Journal) -> None:
        self._system = system
        self._rng = rng
        self._journal = journal

    async def strike(self, name: str) -> None:
        """Let one happen, and write down whether it did."""
        kind, _, what = name.partition(":")
        action: Callable[[str], Awaitable[bool]] = getattr(self, kind)
        try:
            landed = await action(what)
        except _OTHERS_FAULT:  # another accident was in its way
            landed = False
        (self._journal.landed if landed else self._journal.missed)[name] += 1

    async def kill(self, victim: str) -> bool:
        """SIGKILL a program; a worker while it holds leases, if it comes to hold any soon."""
        slot = self._system.slots[self._slot(victim)]
        program = slot.program
        await self._is_ready(program)
        name = self._system.worker_name(slot.name)
        if victim != "server":
            await self._comes_to_work(name)
        program.send(signal.SIGKILL)
        code = await asyncio.to_thread(program.ended)
        if victim != "server":
            self._journal.killed.append((time.time(), name))
        return code == -signal.SIGKILL

    async def kill_keeper(self, victim: str) -> bool:
        """SIGKILL the process that renews: its worker must get itself another."""
        slot = self._system.slots[self._slot(victim)]
        program = slot.program
        await self._is_ready(program)
        keepers = [k for m in KEEPERS for k in self._system.children(slot.name, m)]
        if not keepers:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            keepers[0].kill()
            await asyncio.to_thread(keepers[0].wait, 10.0)
        return True

    async def seam(self, what: str) -> bool:
        """Let a program meet with its accident before, in or after one statement.

        What only one server does at a time is done by the one that is left.
        """
        seam = what.replace("/", ".", 1)
        place = "server" if seam.split(".")[0] in AT_SERVERS else "worker"
        for _ in range(_SEAM_TRIES):  # others may kill it before
            if await self._seam_once(self._system.slots[self._slot(place)], seam):
                return True
        return False

    async def _seam_once(self, slot: Slot, seam: str) -> bool:
        armed = await self._rearmed(slot, seam)
        await self._is_ready(armed)
        if slot.name.startswith("server"):
            others = [s for n, s in self._system.slots.items() if n.startswith("server")]
            for other in others:
                if other is not slot:
                    other.program.send(signal.SIGTERM)
        return await self._gives(armed)

    async def _rearmed(self, slot: Slot, seam: str) -> Program:
        """Kill the program of a slot until one with the seam is there."""
        self._system.arm(slot.name, seam)

        async def replaced() -> Program | None:
            if slot.armed is None:
                slot.program.send(signal.SIGKILL)
            return slot.armed

        armed = await eventually(replaced, within_s=_READY_S, what=f"a {slot.name} with a seam")
        assert armed is not None
        return armed

    async def _gives(self, program: Program) -> bool:
        until = time.monotonic() + _SEAM_S
        while time.monotonic() < until:
            ended = program.process.poll() is not None
            if any(line.get("message") == "a seam gives" for line in program.lines()):
                return True
            if ended:
                return False
            await asyncio.sleep(0.1)
        return False

    async def pause(self, victim: str) -> bool:
        """SIGSTOP a program with its children for up to 2.5 leases, then let it go on."""
        seconds = self._rng.uniform(0.3, 2.5) * LEASE_S
        slot = self._system.slots[self._slot(victim)]
        await self._is_ready(slot.program)
        family = _family(slot.pid)
        stopped = [each for each in family if _stop(each)]
        seen = bool(stopped) and await _stand_still(stopped)
        await asyncio.sleep(seconds)
        self._journal.long_pauses += seen and seconds > LEASE_S
        for each in reversed(stopped):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()
        return seen

    async def term(self, victim: str) -> bool:
        """SIGTERM: it hands back what it holds and ends with 0."""
        return await self._ends(victim, (signal.SIGTERM,), {0})

    async def term_twice(self, victim: str) -> bool:
        """SIGTERM, and again: it ends at once."""
        return await self._ends(victim, (signal.SIGTERM, signal.SIGTERM), {0, 1})

    async def cut(self, who: str) -> bool:
        """Terminate sessions: of all, or of those whose name begins so."""
        async with self._system.looking() as db:
            return bool(await db.fetchval(_TERMINATE, f"{who if who != 'all' else ''}%", OURS))

    async def restart(self, how: str) -> bool:
        """Stop PostgreSQL, fast or at once, and start it again."""
        number = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how]
        before = self._system.postgres.pid
        await asyncio.to_thread(self._system.restart_postgres, number)
        self._journal.back.append(time.time())
        return self._system.postgres.pid != before

    async def read_only(self, _: str) -> bool:
        """Let every new transaction be refused its writes for a while, as after a failover."""
        await self._alter("SET default_transaction_read_only = on")
        try:
            refused = await self._refuses_writes()
            await asyncio.sleep(1.0)
        finally:
            await self._undone("RESET default_transaction_read_only")
        self._journal.back.append(time.time())
        return refused

    async def _refuses_writes(self) -> bool:
        async with self._system.looking() as db:
            try:
                await db.execute("DELETE FROM jobqueue.workers WHERE false")
            except asyncpg.ReadOnlySQLTransactionError:
                return True
        return False

    async def no_connections(self, _: str) -> bool:
        """Take all connections that there are, and end those of the programs, for a while."""
        refused = 0
        async with contextlib.AsyncExitStack() as taken:
            first = await taken.enter_async_context(self._system.looking())
            await first.fetchval(_TERMINATE, "%", OURS)
            until = time.monotonic() + 3.0
            while time.monotonic() < until and refused < _REFUSALS:
                try:
                    await taken.enter_async_context(self._system.looking())
                except asyncpg.TooManyConnectionsError:
                    refused += 1
                    await asyncio.sleep(0.05)
        self._journal.back.append(time.time())
        return refused > 0

    async def redis(self, how: str) -> bool:
        """Kill Redis and start it empty, or forget all, or let it hang or refuse writes."""
        server = self._system.redis
        if how == "flush":
            return await asyncio.to_thread(server.command, "FLUSHALL") is not None
        if how == "restart":
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(1.0)
            await asyncio.to_thread(server.start)
            return True
        with server.hanging():
            await asyncio.sleep(1.5)
        return True

    async def kafka(self, how: str) -> bool:
        """Cut the way to Kafka for a while."""
        way = self._system.kafka
        await asyncio.to_thread(way.cut)
        refused = way.refused
        await asyncio.sleep(2.0)
        way.open()
        return way.refused > refused

    async def net(self, what: str) -> bool:
        """Let one stretch of the network suffer from a weather for up to two leases."""
        where, _, weather = what.partition("/")
        links = [link for n, link in self._system.links.items() if n.startswith(where)]
        link = max(links, key=lambda each: (each.busy > 0, self._rng.random()))
        before = link.hit
        await asyncio.to_thread(link.turn, Weather(weather))
        await asyncio.sleep(self._rng.uniform(0.5, 2.0) * LEASE_S)
        await asyncio.to_thread(link.turn, Weather.FAIR)
        return link.hit > before

    def _slot(self, prefix: str) -> str:
        return self._rng.choice([n for n in self._system.slots if n.startswith(prefix)])

    async def _ends(self, victim: str, numbers: Sequence[int], codes: set[int]) -> bool:
        slot = self._system.slots[self._slot(victim)]
        program = slot.program
        await self._is_ready(program)
        for number in numbers:
            program.send(number)
            await asyncio.sleep(self._rng.uniform(0, 0.2))
        code = await asyncio.to_thread(program.ended, 40.0)
        if code not in codes:
            self._journal.missed[f"ended with {code}: {slot.name}"] += 1
        return code in codes

    async def _is_ready(self, program: Program) -> None:
        """Wait until it serves, or has ended again by an accident of its own."""
        until = time.monotonic() + _READY_S
        while time.monotonic() < until:
            lines = program.lines()
            if any(line.get("message") == "ready" for line in lines):
                return
            if program.process.poll() is not None:
                return
            await asyncio.sleep(0.05)

    async def _comes_to_work(self, name: str) -> None:
        async def holds() -> bool:
            with contextlib.suppress(*_OTHERS_FAULT):
                async with self._system.looking() as db:
                    return bool(await db.fetchval(_HELD, name))
            return False

        with contextlib.suppress(AssertionError):  # it is killed all the same
            await eventually(holds, within_s=3.0, what="leases")

    async def _undone(self, change: str) -> None:
        """Alter, whatever else happens meanwhile."""
        until = time.monotonic() + _READY_S
        while time.monotonic() < until:
            with contextlib.suppress(*_OTHERS_FAULT):
                await self._alter(change)
                return
            await asyncio.sleep(0.1)

    async def _alter(self, change: str) -> None:
        async with self._system.looking() as db:
            await db.execute("SET default_transaction_read_only = off")
            await db.execute(f"ALTER SYSTEM {change}")
            await db.execute("SELECT pg_reload_conf()")


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    return []


def _stop(process: psutil.Process) -> bool:
    try:
        process.suspend()
    except psutil.NoSuchProcess:
        return False
    return True


async def _stand_still(processes: Sequence[psutil.Process]) -> bool:
    """Tell whether all of them came to a stop that live."""

    async def still() -> bool:
        return all(map(_is_still, processes))

    with contextlib.suppress(AssertionError):
        return await eventually(still, within_s=1.0, what="a stop")
    return False


def _is_still(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


SHARES: Mapping[str, int] = {
    "kill:worker": 22,
    "kill:remote": 12,
    "kill:server": 10,
    "kill_keeper:worker": 3,
    "kill_keeper:remote": 2,
    "pause:worker": 14,
    "pause:remote": 7,
    "pause:server": 6,
    "term:worker": 2,
    "term:remote": 1,
    "term:server": 2,
    "term_twice:worker": 2,
    "term_twice:server": 1,
    "cut:all": 5,
    "cut:jq-server": 2,
    "cut:jq-worker": 2,
    "cut:jq-settler": 2,
    "cut:jq-keeper": 2,
    "restart:fast": 1,
    "restart:immediate": 1,
    "read_only": 1,
    "no_connections": 1,
    "redis:flush": 1,
    "redis:restart": 1,
    "redis:hang": 1,
    "kafka:cut": 2,
    "net:worker/slow": 1,
    "net:worker/mute": 1,
    "net:worker/still": 1,
    "net:worker/cut": 1,
    "net:server/mute": 1,
    "net:server/still": 1,
    "net:grpc/slow": 1,
    "net:grpc/mute": 1,
    "net:grpc/still": 1,
    "net:grpc/cut": 1,
}
"""How often each happens in one round, which is what the gate asks for."""


def plan(rng: random.Random, rounds: float) -> list[str]:
    """Return what is to happen, in a random order."""
    shares = {**SHARES, **dict.fromkeys(SEAMS, 1)}
    names = [name for name, share in shares.items() for _ in range(round(share * rounds) or 1)]
    rng.shuffle(names)
    return names
