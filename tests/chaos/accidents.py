"""Lets accidents happen, each until it landed or was tried often enough."""

import asyncio
import logging
import subprocess
from collections.abc import Mapping

import psutil
import redis

from tests.chaos.at_database import AtDatabase
from tests.chaos.at_programs import AtPrograms
from tests.chaos.at_seams import AtSeams
from tests.chaos.at_surroundings import AtSurroundings
from tests.chaos.journal import Journal
from tests.chaos.scene import OTHERS_FAULT, Action, Scene

TRIES = 3
_REST_S = 2.0
"""Before another try: what was in the way may be over then."""

_IN_ITS_WAY = (
    *OTHERS_FAULT,
    subprocess.TimeoutExpired,
    psutil.TimeoutExpired,
    redis.RedisError,
)
"""What an accident meets because others happen, or the machine is busy."""

_log = logging.getLogger(__name__)


def actions_on(scene: Scene) -> Mapping[str, Action]:
    """Return all that can be done to a system, by kind of accident."""
    programs = AtPrograms(scene)
    return {
        **programs.actions(),
        **AtSeams(scene, programs).actions(),
        **AtDatabase(scene).actions(),
        **AtSurroundings(scene).actions(),
    }


class Accidents:
    """Strikes by name: a kind, and behind a colon to what it happens."""

    def __init__(
        self, actions: Mapping[str, Action], journal: Journal, rest_s: float = _REST_S
    ) -> None:
        self._actions = actions
        self._journal = journal
        self._rest_s = rest_s

    async def strike(self, name: str) -> None:
        """Let one happen, to another victim when it did not, and write down what came of it."""
        for tried in range(TRIES):
            await asyncio.sleep(self._rest_s if tried else 0)
            cause = await self._fails(name)
            _log.info("%s: %s", name, "landed" if cause is None else f"not now ({cause})")
            if cause is None:
                self._journal.landed[name] += 1
                return
            self._journal.again[f"{name} ({cause})" if cause else name] += 1
        self._journal.missed[name] += 1

    async def _fails(self, name: str) -> str | None:
        """Try once. Return None when it landed, else why not as far as that is known."""
        kind, _, what = name.partition(":")
        try:
            return None if await self._actions[kind](what) else ""
        except _IN_ITS_WAY as error:
            return type(error).__name__
        except AssertionError as error:  # what it waits for did not come
            return str(error).partition(" was not reached")[0].partition("\n")[0]
