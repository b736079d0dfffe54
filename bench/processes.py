"""Programs under measurement: started, waited for, talked to, ended. None outlives the harness."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.errors import BenchError, TookTooLong
from jobqueue.embedded.identity import Identity

ROOT = Path(__file__).parents[1]
_START_S = 60.0
_LOG_TAIL = 300
_END_S = 20.0
_LOOK_AGAIN_S = 0.005
_REST = 10
"""How much longer than a look the rest after it lasts, so that looking does not become the work."""

_LONGEST_REST_S = 0.05
"""Nor may what is waited for be noticed late: that would be counted as its time."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a program; ``env`` is added to ours, whose JQ_ variables are left out."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the whole environment. Our own modules are found from anywhere."""
        ours = {key: value for key, value in os.environ.items() if not key.startswith("JQ_")}
        return ours | {"PYTHONPATH": str(ROOT)} | dict(self.env)


def module(name: str, *arguments: str) -> Launch:
    """Return how to run a module of ours."""
    return Launch((sys.executable, "-m", name, *arguments))


class Program:
    """A running program in a session of its own; what it says goes to a log.

    ``talks``: its stdout and stdin are a conversation of one JSON object a line.
    """

    def __init__(self, launch: Launch, log: Path, *, talks: bool = False) -> None:
        self.log = log
        self._launch = launch
        self._talks = talks
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        # The wrapper has the kernel end the program when we die, then becomes the program.
        argv = Identity.SAME.command(self._launch.argv)
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE if self._talks else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if self._talks else log,
                stderr=log,
                env=self._launch.environment(),
                start_new_session=True,  # Ctrl-C is for us, who then end it in order
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.end()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._running().pid

    def text(self) -> str:
        """Return what it has logged."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def check(self) -> None:
        """Raise BenchError when it has ended."""
        code = self._running().returncode
        if code is not None:
            said = " ".join(self.text().split())[-_LOG_TAIL:]
            raise BenchError(f"{self.log.name} ended with {code}: {said}")

    async def ready(self) -> Mapping[str, Any]:
        """Wait until it says that it serves; return the line. Raises BenchError."""
        if self._talks:
            return await self.heard(_START_S)
        found: dict[str, Any] = {}

        async def serves() -> bool:
            self.check()
            lines = (line for line in self.text().splitlines() if '"ready"' in line)
            found.update(json.loads(next(lines, "{}")))
            return bool(found)

        await until(serves, within_s=_START_S, what=f"readiness of {self.log.name}")
        return found

    async def ask(self, **order: object) -> None:
        """Send one line."""
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(json.dumps(order).encode() + b"\n")
        await stdin.drain()

    async def heard(self, within_s: float) -> Mapping[str, Any]:
        """Return the next line it says. Raises BenchError when it ends or is too slow."""
        stdout = self._running().stdout
        assert stdout is not None
        try:
            line = await asyncio.wait_for(stdout.readline(), within_s)
        except TimeoutError as error:
            raise TookTooLong(f"{self.log.name} said nothing in {within_s:.0f} s") from error
        if not line:
            await self._running().wait()
            self.check()
        said: Mapping[str, Any] = json.loads(line)
        return said

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to it alone."""
        os.kill(self.pid, number)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and everything it started in its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    async def end(self) -> None:
        """End it in order; when that takes too long, without mercy."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _END_S)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await process.wait()
        self.send(signal.SIGKILL)

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "it is not started"
        return self._process


async def until(
    look: Callable[[], Awaitable[bool]],
    *,
    within_s: float,
    what: str,
    pause_s: float = _LOOK_AGAIN_S,
) -> None:
    """Look until it is so. Raises TookTooLong."""
    begun = looked = time.monotonic()
    while not await look():
        now = time.monotonic()
        if now - begun > within_s:
            raise TookTooLong(f"{what} did not come within {within_s:.0f} s")
        await asyncio.sleep(max(pause_s, min(_REST * (now - looked), _LONGEST_REST_S)))
        looked = time.monotonic()
