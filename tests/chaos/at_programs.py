"""Accidents of servers, workers and keepers: signals."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import psutil

from tests.chaos.scene import OTHERS_FAULT, READY_S, REDIS, Action, Scene
from tests.chaos.system import LEASE_S, Slot
from tests.support.programs import Program
from tests.support.waiting import eventually

KEEPERS = ("jobqueue.lease.keeper_process", "jobqueue.remote.keeper_process")
_DRAIN_S = 20.0
_LEADER_S = 10.0
_LOOK_S = 2.0
_LOCKS = "jobqueue:*:lock:"
_HELD = """
    SELECT count(*) FROM jobqueue.leases l JOIN jobqueue.worker_names n USING (worker_id)
    WHERE n.name = $1
"""


class AtPrograms:
    """Strikes programs, each of which nobody else strikes meanwhile."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._system = scene.system

    def actions(self) -> Mapping[str, Action]:
        """Return all, by kind."""
        return {
            "kill": self.kill,
            "kill_keeper": self.kill_keeper,
            "kill_leader": self.kill_leader,
            "pause": self.pause,
            "pause_leader": self.pause_leader,
            "term": self.term,
            "term_twice": self.term_twice,
            "term_kill": self.term_kill,
        }

    async def kill(self, victim: str) -> bool:
        """SIGKILL a program; a worker while it holds leases, if it comes to hold any soon."""
        async with self.one(victim) as slot:
            await self.comes_to_work(slot)
            return await self.dies(slot, slot.program)

    async def kill_keeper(self, victim: str) -> bool:
        """SIGKILL the process that renews: its worker must get itself another."""
        async with self.one(victim) as slot:
            keepers = [k for m in KEEPERS for k in self._system.children(slot.name, m)]
            for keeper in keepers[:1]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    keeper.kill()
                    await asyncio.to_thread(keeper.wait, 10.0)
                    return True
        return False

    async def kill_leader(self, duty: str) -> bool:
        """SIGKILL the server that has this lock in Redis: another one must come to have it."""
        async with self._led(duty) as (leader, owner):
            begun = time.monotonic()
            if not await self.dies(leader, leader.program):
                return False
            await self._another_leads(duty, owner)
            self._scene.journal.led_again_s.append(time.monotonic() - begun)
            return True

    async def pause_leader(self, duty: str) -> bool:
        """SIGSTOP it for longer than the lock lives, until another one has it."""
        async with self._led(duty) as (leader, owner):
            async with stopped(leader) as still:
                await self._another_leads(duty, owner)
            return still

    async def pause(self, victim: str) -> bool:
        """SIGSTOP a program with its children for up to 2.5 leases, then let it go on."""
        seconds = self._scene.rng.uniform(0.3, 2.5) * LEASE_S
        async with self.one(victim) as slot:
            async with stopped(slot) as still:
                await asyncio.sleep(seconds)
            self._scene.journal.long_pauses += still and seconds > LEASE_S
            return still

    async def term(self, victim: str) -> bool:
        """SIGTERM: it hands back what it holds and ends with 0."""
        async with self.one(victim) as slot:
            return await self._ends(slot.program, signal.SIGTERM) == 0

    async def term_twice(self, victim: str) -> bool:
        """SIGTERM, and again: it ends at once.

        When it had stopped before, with 0, or by a signal that it does not catch any more.
        """
        async with self.one(victim) as slot:
            program = slot.program
            code = await self._ends(program, signal.SIGTERM, signal.SIGTERM)
            return code in {0, 1} or (code == -signal.SIGTERM and program.says("stopped"))

    async def term_kill(self, victim: str) -> bool:
        """SIGTERM, and SIGKILL while it hands back what it holds."""
        async with self.one(victim) as slot:
            await self.comes_to_work(slot)
            program = slot.program
            program.send(signal.SIGTERM)
            await self.until(lambda: program.says("stopping"), _DRAIN_S, "a drain")
            return await self.dies(slot, program) and not program.says("stopped")

    @asynccontextmanager
    async def one(self, kind: str) -> AsyncIterator[Slot]:
        """Lend a program that serves."""
        async with self._scene.victims.one(kind) as name:
            slot = self._system.slots[name]
            await self.is_ready(slot)
            yield slot

    @asynccontextmanager
    async def _led(self, duty: str) -> AsyncIterator[tuple[Slot, str]]:
        """Lend the server that leads by its own log, and the value of the lock in Redis.

        Whether it did lead, the lock tells: a leader that lives keeps its value there.
        """
        async with (
            self._scene.victims.one(REDIS),
            self._scene.victims.all("server") as names,
        ):
            slots = [self._system.slots[name] for name in names]
            for slot in slots:
                await self.is_ready(slot)
            leader = await self._leader(slots, duty)
            owner = await self._owner(duty)
            assert owner is not None, f"nobody has the lock of the {duty}"
            yield leader, owner

    async def _leader(self, slots: Sequence[Slot], duty: str) -> Slot:
        async def look() -> Slot | None:
            return next((slot for slot in slots if _leads(slot, duty)), None)

        leader = await eventually(look, within_s=_LEADER_S, what="a leader")
        assert leader is not None
        return leader

    async def _owner(self, duty: str) -> str | None:
        redis = self._system.redis
        keys = await asyncio.to_thread(redis.command, "KEYS", f"{_LOCKS}{duty}")
        return str(await asyncio.to_thread(redis.command, "GET", keys[0])) if keys else None

    async def _another_leads(self, duty: str, owner: str) -> None:
        async def changed() -> bool:
            return await self._owner(duty) not in {None, "None", owner}

        await eventually(changed, within_s=_LEADER_S, what=f"another {duty}")

    async def dies(self, slot: Slot, program: Program) -> bool:
        """SIGKILL it; tell whether that was its end."""
        name = self._system.worker_name(slot.name)
        program.send(signal.SIGKILL)
        killed = await asyncio.to_thread(program.ended) == -signal.SIGKILL
        if killed and not slot.name.startswith("server"):
            self._scene.journal.killed.append((time.time(), name))
        return killed

    async def _ends(self, program: Program, *numbers: int) -> int:
        for number in numbers:
            program.send(number)
            await asyncio.sleep(self._scene.rng.uniform(0, 0.2))
        return await asyncio.to_thread(program.ended, 40.0)

    async def is_ready(self, slot: Slot) -> None:
        """Wait until it serves, as its program or as the one that is started next."""
        what = f"a {slot.name} that serves"
        await self.until(
            lambda: slot.program.says("ready") and not ended(slot.program), READY_S, what
        )

    async def comes_to_work(self, slot: Slot) -> None:
        """Wait a little until a worker holds leases; it is struck all the same."""
        if not slot.name.startswith("server"):
            with contextlib.suppress(AssertionError):
                await eventually(lambda: self.holds(slot), within_s=3.0, what="leases")

    async def holds(self, slot: Slot) -> bool:
        """Tell whether a worker holds leases, as far as the database can be asked.

        If it stands still itself, who waits for a lock of its may have locked the table.
        """
        with contextlib.suppress(*OTHERS_FAULT):
            async with asyncio.timeout(_LOOK_S), self._system.looking() as db:
                return bool(await db.fetchval(_HELD, self._system.worker_name(slot.name)))
        return False

    async def until(self, seen: Callable[[], bool], within_s: float, what: str) -> None:
        """Wait for what can be seen at once."""

        async def look() -> bool:
            return seen()

        await eventually(look, within_s=within_s, what=what)


def ended(program: Program) -> bool:
    """Tell whether it has."""
    return program.process.poll() is not None


def _leads(slot: Slot, duty: str) -> bool:
    """Tell by the last line about the lock."""
    lines = [line["message"] for line in slot.program.lines() if line.get("lock") == duty]
    return bool(lines) and lines[-1].startswith("acting:") and not ended(slot.program)


@asynccontextmanager
async def stopped(slot: Slot) -> AsyncIterator[bool]:
    """Stop a program with its children until the block ends; tell whether all stand still."""
    stopped = [each for each in _family(slot.pid) if _stop(each)]
    try:
        yield bool(stopped) and await _stand_still(stopped)
    finally:
        for each in reversed(stopped):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()


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
        return await eventually(still, within_s=5.0, what="a stop")
    return False


def _is_still(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
