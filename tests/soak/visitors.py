"""Who comes and goes while a system is soaked: operators, watchers, KEDA, and cuts of connections.

Each counts what was done, and what was refused or broken off; a cut is in everybody's way.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import cycle

import grpc

from jobqueue.client import AsyncClient, JobSpec
from jobqueue.domain.checkup import Check
from jobqueue.errors import JobQueueError
from tests.chaos.accidents import Accidents
from tests.chaos.load import Load
from tests.chaos.system import QUEUES
from tests.soak.work import SHELL
from tests.support.keda import Keda, NoMetric
from tests.support.programs import run_ctl

CTL = (
    ("status",),
    ("queue", "list"),
    ("queue", "stats", "work"),
    ("job", "list", "--limit", "20"),
    ("worker", "list"),
    # It would find fault with the settings of a database that need not survive.
    ("doctor", *(f"--check={check}" for check in Check if check is not Check.SETTINGS)),
)
CUTS = (
    "cut:jq-worker",
    "cut:jq-keeper",
    "redis:flush",
    "cut:jq-settler",
    "net:grpc/cut",
    "cut:jq-server",
    "net:worker/cut",
)
"""Connections that end, of every kind that programs hold; nothing that ends a program."""

_CTL_S, _WATCH_S, _POLL_S = 5.0, 0.5, 1.0
_TAIL_EVENTS = 50
_WATCHED_S = 5.0


@dataclass
class SteadyLoad(Load):
    """The load of the chaos runs, with programs and more kinds of ends."""

    def _spec(self) -> JobSpec:
        spec = super()._spec()
        chance = self.rng.random()
        if chance < 0.002:
            return replace(spec, type="lasting")
        if chance < 0.05:
            return replace(spec, type="shell", payload=_command(spec))
        if chance < 0.10:
            return replace(spec, type="thread")
        if chance < 0.12:
            return replace(spec, type="long", timeout_s=0.3, max_retries=1)
        if chance < 0.40:
            return replace(spec, type="tidy")
        return spec


def _named(command: Sequence[str]) -> str:
    """Return by what name a command is counted."""
    words = [word for word in command if not word.startswith("-")]
    return " ".join(["jq-ctl", *words[:2]])


def _command(spec: JobSpec) -> bytes:
    """Return a payload that runs ``SHELL`` and is no other job's."""
    return json.dumps({"command": f": {spec.payload.decode()}; {SHELL}"}).encode()


@dataclass
class Visitors:
    """All of them; each ``async`` method but ``all_come`` goes on until it is cancelled."""

    addresses: Sequence[str]
    scaler_ports: Sequence[int]
    load: Load
    accidents: Accidents
    rng: random.Random
    pause_of_cuts_s: float
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def all_come(self) -> Sequence[object]:
        """Return what each of them does, to be run side by side."""
        return (self.command(), self.watch(), self.tail(), self.scale(), self.cut())

    @property
    def missing(self) -> list[str]:
        """Who has not come once."""
        wanted = [*map(_named, CTL), "watch", "tail", "scaler"]
        return [what for what in wanted if not self.done[what]]

    async def command(self) -> None:
        """Run `jq-ctl`, one command after the other."""
        for command in cycle(CTL):
            ended = await asyncio.to_thread(run_ctl, self._address(), *command)
            self._count(_named(command), done=ended.returncode == 0)
            await asyncio.sleep(_CTL_S)

    async def watch(self) -> None:
        """Follow a job to its end or for a while, over a connection of its own."""
        while True:
            await asyncio.sleep(_WATCH_S)
            known = [call.job for call in self.load.calls[-20:] if call.job]
            if known:
                await self._watch(self.rng.choice(known))

    async def _watch(self, job: str) -> None:
        try:
            async with (
                AsyncClient(self._address()) as client,
                aclosing(client.watch(job, timeout_s=_WATCHED_S)) as states,
            ):
                async for _ in states:
                    pass
        except JobQueueError:
            self._count("watch", done=False)
        else:
            self._count("watch", done=True)

    async def tail(self) -> None:
        """Read the stream of events for a while, again and again."""
        while True:
            try:
                async with AsyncClient(self._address()) as client:
                    await self._tail(client)
            except JobQueueError:
                self._count("tail", done=False)
                await asyncio.sleep(1.0)

    async def _tail(self, client: AsyncClient) -> None:
        seen = 0
        async with aclosing(client.tail_events(follow=True)) as events:
            async for _ in events:
                seen += 1
                if seen == _TAIL_EVENTS:
                    self._count("tail", done=True)
                    return

    async def scale(self) -> None:
        """Ask the scaler as KEDA does, in whose place one channel stays open."""
        async with Keda(self.scaler_ports, {"queues": QUEUES[0], "targetPerReplica": "8"}) as keda:
            spec = await keda.spec()
            while True:
                try:
                    await keda.poll(spec.metric)
                except (NoMetric, grpc.aio.AioRpcError):
                    self._count("scaler", done=False)
                else:
                    self._count("scaler", done=True)
                await asyncio.sleep(_POLL_S)

    async def cut(self) -> None:
        """End connections of one kind after the other."""
        for name in cycle(CUTS):
            await asyncio.sleep(self.pause_of_cuts_s)
            await self.accidents.strike(name)

    def _count(self, what: str, *, done: bool) -> None:
        (self.done if done else self.failed)[what] += 1

    def _address(self) -> str:
        return self.rng.choice(list(self.addresses))
