"""One soak: a system at rest under steady work, looked at again and again, and the verdict."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.accidents import Accidents, actions_on
from tests.chaos.checker import Violation, check
from tests.chaos.journal import Journal
from tests.chaos.rest import quiet
from tests.chaos.run import beside, keep_count, read_all
from tests.chaos.scene import scene_of
from tests.chaos.system import Cast, System, running
from tests.soak.judge import Look, Verdict, judge
from tests.soak.probes import BOUNDS, Eye
from tests.soak.visitors import CUTS, SteadyLoad, Visitors
from tests.support.redis import free_port

LOOKS = 120
"""In a run, unless they would be closer together or further apart than these seconds."""
CLOSEST_S, FURTHEST_S = 0.5, 5.0

_LEASE_S = 30.0
_PATIENCE = 4
_CUTS = 20
_SETTINGS = {
    # As they are by default, but for a grace that hanging jobs would fill slots with.
    "worker_kill_grace_s": 0.5,
}


@dataclass
class Outcome:
    """What came of a soak."""

    seconds: float
    jobs: int
    verdicts: list[Verdict]
    violations: list[Violation]
    load: SteadyLoad
    visitors: Visitors
    journal: Journal
    starts: Counter[str] = field(default_factory=Counter)
    """How many attempts were started, by their jobs' type."""
    ended: list[str] = field(default_factory=list)
    """Programs that ended, by name and exit code: none should."""
    renewed: int = 0
    """How many jobs were completed under a lease that had to be renewed."""
    lost: int = 0
    """How many leases ran out: none should, as nobody is stopped and cuts are far shorter."""

    @property
    def missing(self) -> list[str]:
        """What a soak is made of and this one did not have."""
        cuts = [name for name in CUTS if not self.journal.landed[name]]
        renewals = [] if self.renewed else ["lease that outlasted its first term"]
        return [*self.visitors.missing, *cuts, *renewals]

    @property
    def grown(self) -> list[Verdict]:
        """Whatever is not flat."""
        return [verdict for verdict in self.verdicts if verdict.grows]

    @property
    def passed(self) -> bool:
        """Whether all is flat, every invariant holds, and no program or lease was lost."""
        return not (self.grown or self.violations or self.ended or self.lost)


class Soak:
    """Puts the parts together."""

    def __init__(self, folder: Path, rng: random.Random, seconds: float, rate: float) -> None:
        """``rate`` is in jobs a second."""
        self._folder = folder
        self._rng = rng
        self._seconds = seconds
        self._jobs = round(seconds * rate)
        self._scalers: list[int] = []

    async def go(self) -> Outcome:
        """Run to the end, and judge. Raises TooShort."""
        begun = time.monotonic()
        async with running(self._folder, self._cast()) as system:
            await system.settle_down()
            load = SteadyLoad(system.addresses, self._jobs, random.Random(self._rng.random()))
            await load.prepare()
            journal = Journal()
            visitors = self._visitors(system, load, journal)
            looks = await self._steady(system, load, visitors)
            await quiet(system)
            starts = await _starts(system)
            ended = _ended(system)
            history = await read_all(system, load, _LEASE_S)
        return Outcome(
            time.monotonic() - begun,
            len(history.rows),
            judge(looks, BOUNDS),
            check(history),
            load,
            visitors,
            journal,
            starts,
            ended,
            history.renewed,
            sum(event.reason == "LEASE_EXPIRED" for event in history.events),
        )

    def _cast(self) -> Cast:
        return Cast(
            workers=1,
            remotes=1,
            handlers="tests.soak.work",
            flags=("--allow-shell",),
            settings=_SETTINGS,
            servers=self._scaler,
        )

    def _scaler(self) -> Mapping[str, object]:
        self._scalers.append(free_port())
        return {"scaler_port": self._scalers[-1]}

    def _visitors(self, system: System, load: SteadyLoad, journal: Journal) -> Visitors:
        scene = scene_of(system, random.Random(self._rng.random()), journal)
        accidents = Accidents(actions_on(scene), journal)
        pause_s = self._seconds / max(_CUTS, len(CUTS) + 1)
        return Visitors(system.addresses, self._scalers, load, accidents, self._rng, pause_s)

    async def _steady(self, system: System, load: SteadyLoad, visitors: Visitors) -> Sequence[Look]:
        """Let jobs come at their rate, and look; submitters who are behind give up at the end."""
        submitting = asyncio.create_task(load.submit_all())
        async with system.looking() as db:
            works = (keep_count(system, load), load.operate(), *visitors.all_come())
            async with beside(*works):
                looks = await self._look(Eye(system, db), load)
                load.jobs = load.accepted
                await submitting
        return looks

    async def _look(self, eye: Eye, load: SteadyLoad) -> Sequence[Look]:
        pause_s = min(max(self._seconds / LOOKS, CLOSEST_S), FURTHEST_S)
        begun = time.monotonic()
        looks: list[Look] = []
        while (at := time.monotonic() - begun) < self._seconds:
            load.share = at / self._seconds
            if not looks or at >= looks[-1].at + pause_s:
                looks.append(Look(at, *await eye.look()))
            await asyncio.sleep(CLOSEST_S / _PATIENCE)
        return looks


async def _starts(system: System) -> Counter[str]:
    async with system.looking() as db:
        return Counter({row[0]: row[1] for row in await db.fetch(_STARTS)})


def _ended(system: System) -> list[str]:
    return [
        f"{slot.name} with {code}"
        for slot in system.slots.values()
        for code in slot.ends.elements()
    ]


_STARTS = """
    SELECT j.type, count(*) FROM jobqueue.job_events e JOIN jobqueue.jobs j ON j.id = e.job
    WHERE e.to_status = 'RUNNING' GROUP BY 1
"""
