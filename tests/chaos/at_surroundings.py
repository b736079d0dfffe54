"""Accidents of Redis, of Kafka, and of the network between any two."""

import asyncio
from collections.abc import Mapping

from tests.chaos.network import Link, Weather
from tests.chaos.scene import KAFKA, LINK, REDIS, Action, Scene
from tests.chaos.system import LEASE_S
from tests.support.programs import is_stopped
from tests.support.waiting import eventually

_CUT_S, _CUT_AT_MOST_S = 2.0, 15.0
_USED_S = 10.0


class AtSurroundings:
    """Strikes what programs talk to, and the ways there."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._system = scene.system

    def actions(self) -> Mapping[str, Action]:
        """Return all, by kind."""
        return {"redis": self.redis, "kafka": self.kafka, "net": self.net}

    async def redis(self, how: str) -> bool:
        """Kill Redis and start it empty, or forget all, or let it hang."""
        server = self._system.redis
        async with self._scene.victims.one(REDIS):
            if how == "flush":
                return bool(await asyncio.to_thread(server.command, "FLUSHALL"))
            before = server.pid
            if how == "restart":
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(1.0)
                await asyncio.to_thread(server.start)
                return before != server.pid
            with server.hanging():
                await asyncio.sleep(1.5)
                return is_stopped(before)

    async def kafka(self, _: str) -> bool:
        """Cut the way to Kafka for a while, and until somebody was turned away.

        A server that was killed holds the cursor for some more seconds, and nobody sends then.
        """
        way = self._system.kafka

        async def turned_away() -> bool:
            return way.refused > refused

        async with self._scene.victims.one(KAFKA):
            await asyncio.to_thread(way.cut)
            refused = way.refused
            try:
                await asyncio.sleep(_CUT_S)
                return await eventually(turned_away, within_s=_CUT_AT_MOST_S, what="a sender")
            finally:
                way.open()

    async def net(self, what: str) -> bool:
        """Let one stretch of the network suffer for up to two leases, and until bytes were hit."""
        where, _, weather = what.partition("/")

        async def hit() -> bool:
            return link.hit > before

        async with self._scene.victims.one(LINK + where) as name:
            link = self._system.links[name.removeprefix(LINK)]
            await _comes_to_use(link)
            before = link.hit
            await asyncio.to_thread(link.turn, Weather(weather))
            try:
                await asyncio.sleep(self._scene.rng.uniform(0.5, 2.0) * LEASE_S)
                return await eventually(hit, within_s=_USED_S, what="bytes")
            finally:
                await asyncio.to_thread(link.turn, Weather.FAIR)


async def _comes_to_use(link: Link) -> None:
    async def busy() -> bool:
        return link.busy > 0

    await eventually(busy, within_s=_USED_S, what="a connection")
