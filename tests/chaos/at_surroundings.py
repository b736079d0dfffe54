"""Accidents of Redis, of Kafka, and of the network (``System.links``)."""

import asyncio
from collections.abc import Mapping

from tests.chaos.network import Link, Weather
from tests.chaos.plan import WEATHERS
from tests.chaos.scene import KAFKA, LINK, REDIS, Action, Scene
from tests.chaos.system import LEASE_S
from tests.support.programs import is_stopped
from tests.support.waiting import eventually

_USED_S = 15.0
"""A server that was killed holds the cursor for some seconds, and nobody sends to Kafka then."""


class AtSurroundings:
    """Strikes what programs talk to, and the ways there."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._system = scene.system

    def actions(self) -> Mapping[str, Action]:
        """Return all, by kind."""
        return {"redis": self.redis, "kafka": self.kafka, "net": self.net}

    async def redis(self, how: str) -> bool:
        """Kill Redis and start it empty, or forget all, or let it or the way there suffer."""
        server = self._system.redis
        async with self._scene.victims.one(REDIS):
            if how in WEATHERS:
                return await self._suffers(self._system.links[REDIS], how)
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

    async def kafka(self, weather: str) -> bool:
        """Let the way to Kafka suffer."""
        async with self._scene.victims.one(KAFKA):
            return await self._suffers(self._system.links[KAFKA], weather)

    async def net(self, what: str) -> bool:
        """Let the network suffer in front of a server, or of the database of one program."""
        where, _, weather = what.partition("/")
        async with self._scene.victims.one(LINK + where) as name:
            return await self._suffers(self._system.links[name.removeprefix(LINK)], weather)

    async def _suffers(self, link: Link, weather: str) -> bool:
        """Turn the weather for up to two leases, and until bytes or connections were hit."""

        async def hit() -> bool:
            return link.hit > before

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
