"""Who may be struck: each by one accident at a time, so that none undoes the proof of another."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager


class Victims:
    """Lends names. Who was struck last is spared while there is another of its kind."""

    def __init__(self, names: Iterable[str], rng: random.Random) -> None:
        self._all = sorted(names)
        self._free = set(self._all)
        self._last: dict[str, str] = {}
        self._wanted: Counter[str] = Counter()
        """Kinds that somebody waits for to have whole: nobody takes one of them away then."""
        self._rng = rng
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def one(self, kind: str) -> AsyncIterator[str]:
        """Wait for one whose name begins so, and lend it."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._wanted[kind] and self._found(kind))
            name = self._chosen(kind)
            self._free.remove(name)
        try:
            yield name
        finally:
            await self._give_back([name])

    @asynccontextmanager
    async def all(self, kind: str) -> AsyncIterator[Sequence[str]]:
        """Wait for all whose names begin so, and lend them in a random order."""
        names = [name for name in self._all if name.startswith(kind)]
        self._wanted[kind] += 1
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._free.issuperset(names))
                self._free.difference_update(names)
        finally:
            self._wanted[kind] -= 1
        try:
            yield self._rng.sample(names, len(names))
        finally:
            await self._give_back(names)

    async def _give_back(self, names: Iterable[str]) -> None:
        async with self._changed:
            self._free.update(names)
            self._changed.notify_all()

    def _found(self, kind: str) -> list[str]:
        return sorted(name for name in self._free if name.startswith(kind))

    def _chosen(self, kind: str) -> str:
        found = self._found(kind)
        others = [name for name in found if name != self._last.get(kind)]
        self._last[kind] = self._rng.choice(others or found)
        return self._last[kind]
