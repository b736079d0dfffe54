"""Accidents that a program meets by itself, at its statements (``jobqueue.store.seams``)."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from jobqueue.client import AsyncClient
from jobqueue.domain.job import JobFilter
from jobqueue.domain.state import JobStatus
from jobqueue.errors import JobQueueError
from tests.chaos.at_programs import AtPrograms, ended
from tests.chaos.plan import AT_SERVERS, FROM_ONE_SERVER, REAPING, step_of
from tests.chaos.scene import READY_S, Action, Scene
from tests.chaos.system import LEASE_S, Slot
from tests.support.programs import Program
from tests.support.waiting import eventually

_SEAM_S, _DRAIN_S, _STOP_S, _CALL_S = 20.0, 10.0, 5.0, 2.0
_CANDIDATES = 20
_ASKED_FOR: Mapping[str, JobStatus] = {
    "cancel_job": JobStatus.PENDING,
    "retry_job": JobStatus.DEAD_LETTERED,
}
"""What happens only when somebody asks for it, and to which jobs."""

Ask = Callable[[], Awaitable[None]]


class AtSeams:
    """Replaces programs by ones with a seam, and waits until it gives."""

    def __init__(self, scene: Scene, programs: AtPrograms) -> None:
        self._scene = scene
        self._system = scene.system
        self._programs = programs

    def actions(self) -> Mapping[str, Action]:
        """Return all, by kind."""
        return {"seam": self.seam, "seam_cut": self.seam, "seam_stop": self.seam_stop}

    async def seam(self, what: str) -> bool:
        """Let a program meet with its accident before, in or after one statement.

        What one server does for all is done by the one that is left.
        """
        steps, seam = step_of(f"seam:{what}"), what.replace("/", ".", 1)
        if not FROM_ONE_SERVER.isdisjoint(steps):
            return await self._seam_of_the_last(seam, reaping=not REAPING.isdisjoint(steps))
        kind = "worker" if AT_SERVERS.isdisjoint(steps) else "server"
        async with self._scene.victims.one(kind) as chosen:
            armed = await self._armed(chosen, seam)
            return await self._gives(armed, self._operator(chosen, steps[0]))

    async def _seam_of_the_last(self, seam: str, *, reaping: bool) -> bool:
        async with self._scene.victims.all("server") as (chosen, *others):
            armed = await self._armed(chosen, seam)
            with self._at_rest(others):
                if reaping:
                    await self._leave_leases(others)
                return await self._gives(armed)

    async def _leave_leases(self, resting: Sequence[str]) -> None:
        """Kill a worker with leases when there is one server left to take them back."""
        left = [self._system.slots[name].program for name in resting]
        await self._programs.until(lambda: all(map(ended, left)), _DRAIN_S, "the others' end")
        async with self._programs.one("worker") as slot, self._caught(slot):
            await self._programs.dies(slot, slot.program)

    async def seam_stop(self, what: str) -> bool:
        """Let a server stop itself while it takes leases back, and go on after more than a lease.

        They are those of a worker that stood still until then, and works on meanwhile, beside
        another server.
        """
        seconds = self._scene.rng.uniform(1.1, 2.0) * LEASE_S
        async with (
            self._scene.victims.all("server") as (chosen, *others),
            self._programs.one("worker") as late,
        ):
            armed = await self._armed(chosen, what.replace("/", ".", 1))
            stood = False
            try:
                with self._at_rest(others):
                    async with self._caught(late):
                        await self._gives(armed)
                stood = await _stands(armed, seconds)
            finally:
                if not stood:  # it may stop yet, when nobody is there who lets it go on
                    armed.send(signal.SIGKILL)
            return stood

    async def _armed(self, name: str, seam: str) -> Program:
        """Let the program of a slot be replaced by one with the seam. A server hands over first."""
        slot = self._system.slots[name]
        await self._programs.is_ready(slot)
        self._system.arm(name, seam)
        slot.program.send(signal.SIGTERM if name.startswith("server") else signal.SIGKILL)
        until = self._programs.until
        await until(lambda: slot.armed is not None, READY_S, f"a {name} with a seam")
        armed = slot.armed
        assert armed is not None
        await until(lambda: armed.says("ready") or ended(armed), READY_S, "its start")
        return armed

    async def _gives(self, armed: Program, ask: Ask | None = None) -> bool:
        """Wait for the accident, and ask again and again for what it happens at."""

        async def given() -> bool:
            if ask is not None:
                await ask()
            return armed.says("a seam gives") or ended(armed)

        await eventually(given, within_s=_SEAM_S, what="a seam")
        return armed.says("a seam gives")

    def _operator(self, server: str, step: str) -> Ask | None:
        """Return what asks a server for this step."""
        if step not in _ASKED_FOR:
            return None
        address = self._system.addresses[int(server.partition("-")[2])]
        return partial(self._ask, address, step)

    async def _ask(self, address: str, step: str) -> None:
        which = JobFilter(statuses=frozenset({_ASKED_FOR[step]}))
        with contextlib.suppress(JobQueueError):
            async with AsyncClient(address, timeout_s=_CALL_S) as client:
                jobs = (await client.list_page(which, page_size=_CANDIDATES)).jobs
                for job in self._scene.rng.sample(jobs, min(1, len(jobs))):
                    await (client.cancel if step == "cancel_job" else client.retry)(job.job_id)

    @asynccontextmanager
    async def _caught(self, slot: Slot) -> AsyncIterator[None]:
        """Stop a worker at a moment at which it holds leases."""
        async with contextlib.AsyncExitStack() as still:

            async def caught() -> bool:
                await still.enter_async_context(self._programs.stopped(slot))
                if await self._programs.holds(slot):
                    return True
                await still.aclose()
                return False

            await eventually(caught, within_s=_SEAM_S, what="a worker with leases")
            yield

    @contextmanager
    def _at_rest(self, names: Sequence[str]) -> Iterator[None]:
        """Let others end, and stay away."""
        slots = [self._system.slots[name] for name in names]
        try:
            for slot in slots:
                slot.resting = True
                slot.program.send(signal.SIGTERM)
            yield
        finally:
            for slot in slots:
                slot.resting = False


async def _stands(armed: Program, seconds: float) -> bool:
    """Let a program stand for so long, then go on; tell whether it stood at both ends of that."""
    if ended(armed):
        return False
    await eventually(armed.stands_still, within_s=_STOP_S, what="a stop")
    await asyncio.sleep(seconds)
    still = await armed.stands_still()
    armed.send(signal.SIGCONT)
    return still
