"""Accidents of servers, workers and keepers: signals."""

import asyncio
import contextlib
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import psutil

from tests.chaos.history import Stop
from tests.chaos.scene import OTHERS_FAULT, READY_S, REDIS, Action, Scene
from tests.chaos.system import LEASE_S, LOCK_S, Slot
from tests.support.programs import Program
from tests.support.waiting import eventually

KEEPERS = ("jobqueue.lease.keeper_process", "jobqueue.remote.keeper_process")
_DRAIN_S = 20.0
_LEADER_S = 10.0
_FOLLOWS_S = 60.0
"""What an accident must lead to comes within this, however many others happen meanwhile."""

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
            at_work = await self.comes_to_work(slot)
            killed = await self.dies(slot, slot.program)
            self._scene.journal.struck_at_work += killed and at_work
            return killed

    async def kill_keeper(self, victim: str) -> bool:
        """SIGKILL the process that renews: its worker must get itself another."""
        async with self.one(victim) as slot:
            program = slot.program
            for keeper in self._keepers(slot)[:1]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    keeper.kill()
                    await asyncio.to_thread(keeper.wait, 10.0)
                    await self.follows(
                        lambda: ended(program) or bool(self._keepers(slot)),
                        f"another keeper of {slot.name}",
                    )
                    return True
        return False

    def _keepers(self, slot: Slot) -> list[psutil.Process]:
        return [k for module in KEEPERS for k in self._system.children(slot.name, module)]

    async def kill_leader(self, duty: str) -> bool:
        """SIGKILL the server that has this lock in Redis: another one must come to have it."""
        async with self._led(duty) as (leader, owner):
            begun = time.monotonic()
            killed = await self.dies(leader, leader.program)
            led = killed and await self._another_leads(duty, owner)
            if led:
                self._scene.journal.led_again_s.append(time.monotonic() - begun)
            return led

    async def pause_leader(self, duty: str) -> bool:
        """SIGSTOP it for longer than the lock lives, until another one has it."""
        async with self._led(duty) as (leader, owner), self.stopped(leader) as still:
            return await self._another_leads(duty, owner) and still

    async def pause(self, victim: str) -> bool:
        """SIGSTOP a program with its children for up to 2.5 leases, then let it go on."""
        seconds = self._scene.rng.uniform(0.3, 2.5) * LEASE_S
        async with self.one(victim) as slot:
            async with self.stopped(slot) as still:
                await asyncio.sleep(seconds)
            self._scene.journal.long_pauses += still and seconds > LEASE_S
            return still

    async def term(self, victim: str) -> bool:
        """SIGTERM: it hands back what it holds and ends with 0; with 1 where it could not."""
        async with self.one(victim) as slot:
            code = await self._ends(slot.program, signal.SIGTERM)
            self._scene.journal.orderly_ends += code == 0
            self._scene.journal.hurried_ends += code == 1
            return code in {0, 1}

    async def term_twice(self, victim: str) -> bool:
        """SIGTERM, and again while it ends: then it ends at once.

        A worker tells by 1 that it heard both; by the second one when it caught none any more. A
        server ends with 0, so what counts is that it was still there.
        """
        async with self.one(victim) as slot:
            program = slot.program
            program.send(signal.SIGTERM)
            await asyncio.sleep(self._scene.rng.uniform(0, 0.2))
            there = not ended(program)
            code = await self._ends(program, signal.SIGTERM)
            heard = code == 1 or (code == 0 and slot.name.startswith("server"))
            late = code == -signal.SIGTERM and program.says("stopped")
            return there and (heard or late)

    async def term_kill(self, victim: str) -> bool:
        """SIGTERM, and SIGKILL while it hands back what it holds."""
        async with self.one(victim) as slot:
            at_work = await self.comes_to_work(slot)
            program = slot.program
            program.send(signal.SIGTERM)
            await self.until(lambda: program.says("stopping"), _DRAIN_S, "a drain")
            cut_short = await self.dies(slot, program) and not program.says("stopped")
            self._scene.journal.struck_at_work += cut_short and at_work
            return cut_short

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

    async def _another_leads(self, duty: str, owner: str) -> bool:
        """Wait until another one does; False when the one that was struck was none that led.

        Who cannot extend the lock loses it: a value that outlives it is that of somebody else.
        """
        begun = time.monotonic()

        async def changed() -> str | None:
            now = await self._owner(duty)
            outlived = now == owner and time.monotonic() - begun > 2 * LOCK_S
            return now if outlived or now not in {None, "None", owner} else None

        with contextlib.suppress(AssertionError):
            return await eventually(changed, within_s=_FOLLOWS_S, what=f"another {duty}") != owner
        self._scene.journal.unmet.append(f"another {duty} within {_FOLLOWS_S:.0f} s")
        return True

    async def dies(self, slot: Slot, program: Program) -> bool:
        """SIGKILL it; tell whether that was its end."""
        name = self._system.worker_name(slot.name)
        program.send(signal.SIGKILL)
        killed = await asyncio.to_thread(program.ended) == -signal.SIGKILL
        if killed and not slot.name.startswith("server"):
            self._scene.journal.killed.append((time.time(), name))
        return killed

    async def _ends(self, program: Program, number: int) -> int:
        """Let a signal end it; the run fails when it does not."""
        program.send(number)
        try:
            return await asyncio.to_thread(program.ended, _FOLLOWS_S)
        except subprocess.TimeoutExpired:
            what = f"an end by {signal.Signals(number).name}"
            self._scene.journal.unmet.append(f"{what} within {_FOLLOWS_S:.0f} s")
            raise

    @asynccontextmanager
    async def stopped(self, slot: Slot) -> AsyncIterator[bool]:
        """Stop a program until the block ends, and write down for how long it stood still."""
        name, since = self._system.worker_name(slot.name), time.time()
        try:
            async with stopped(slot) as still:
                yield still
        finally:
            self._scene.journal.stops.append(Stop(name, since, time.time()))

    async def is_ready(self, slot: Slot) -> None:
        """Wait until it serves, as its program or as the one that is started next."""
        what = f"a {slot.name} that serves"
        await self.until(
            lambda: slot.program.says("ready") and not ended(slot.program), READY_S, what
        )

    async def comes_to_work(self, slot: Slot) -> bool:
        """Wait a little until a worker holds leases; it is struck all the same. Tell whether."""
        if not slot.name.startswith("server"):
            with contextlib.suppress(AssertionError):
                return await eventually(lambda: self.holds(slot), within_s=3.0, what="leases")
        return False

    async def holds(self, slot: Slot) -> bool:
        """Tell whether a worker holds leases, as far as the database can be asked.

        If it stands still itself, who waits for a lock of its may have locked the table.
        """
        with contextlib.suppress(*OTHERS_FAULT):
            async with asyncio.timeout(_LOOK_S), self._system.looking() as db:
                return bool(await db.fetchval(_HELD, self._system.worker_name(slot.name)))
        return False

    async def follows(self, seen: Callable[[], bool], what: str) -> None:
        """Wait for what must follow an accident; the run fails when it does not."""
        try:
            await self.until(seen, _FOLLOWS_S, what)
        except AssertionError:
            self._scene.journal.unmet.append(f"{what} within {_FOLLOWS_S:.0f} s")

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
