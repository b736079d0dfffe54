"""What peers have in common: an environment of their own and one program in it.

The program knows three commands: `prepare DSN` makes the schema and ends, `submit DSN` talks
(bench/programs/talk.py), `work DSN` runs jobs until it is ended.
"""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.environments import node_environment, npm_version, python_environment
from bench.errors import BenchError
from bench.processes import ROOT, Launch
from bench.systems import Probes

_PREPARE_S = 120.0
_SAID = 1000


@dataclass(slots=True)
class Peer:
    """A system whose program is run by one command line prefix once it is installed."""

    name: str
    tuning: str
    keeps: str
    probes: Probes
    packages: Sequence[str]
    program: str
    least: tuple[int, int] = (3, 11)
    slow: bool = False
    volatile: tuple[str, ...] = ()
    command: tuple[str, ...] = field(default=(), init=False)

    async def install(self, cache: Path) -> str:
        """Make the environment. Raises NotInstallable."""
        raise NotImplementedError

    async def prepare(self, dsn: str) -> None:
        """Make the schema by the peer's own means. Raises BenchError."""
        await asyncio.to_thread(self._prepare, self._launch("prepare", dsn))

    def submitter(self, dsn: str) -> Launch:
        """Return its talking program."""
        return self._launch("submit", dsn)

    def workers(self, dsn: str, processes: int) -> Sequence[Launch]:
        """Return as many programs as processes."""
        return [self._launch("work", dsn) for _ in range(processes)]

    def _launch(self, *arguments: str) -> Launch:
        return Launch((*self.command, *arguments))

    def _prepare(self, launch: Launch) -> None:
        ended = subprocess.run(
            launch.argv,
            env=launch.environment(),
            capture_output=True,
            text=True,
            timeout=_PREPARE_S,
            check=False,
        )
        if ended.returncode:
            raise BenchError(f"{self.name} made no schema: {ended.stderr.strip()[-_SAID:]}")


@dataclass(slots=True)
class PythonPeer(Peer):
    """A peer in a virtual environment; ``program`` is a module of bench.programs."""

    async def install(self, cache: Path) -> str:
        """Make the environment. Raises NotInstallable."""
        python = await python_environment(cache, self.name, self.packages, least=self.least)
        self.command = (str(python), "-m", f"bench.programs.{self.program}")
        return self.packages[0].replace("==", " ")


@dataclass(slots=True)
class NodePeer(Peer):
    """A peer in a folder of npm packages; ``program`` is a file of bench/programs."""

    async def install(self, cache: Path) -> str:
        """Make the environment. Raises NotInstallable."""
        node, folder = await node_environment(cache, self.name, self.packages, least=self.least)
        # Node looks for packages beside the program, so the program goes where they are.
        for source in (ROOT / "bench" / "programs").glob("*.mjs"):
            target = folder / source.name
            target.write_bytes(source.read_bytes())
        self.command = (str(node), str(folder / self.program))
        package = self.packages[0].rpartition("@")[0]
        return f"{package} {npm_version(folder, package)} (Node.js {_node_version(node)})"


def _node_version(node: Path) -> str:
    asked = subprocess.run(
        [str(node), "--version"], capture_output=True, text=True, check=True, env=os.environ
    )
    return asked.stdout.strip().removeprefix("v")


def nothing_in(table: str) -> str:
    """Return how to see that a system that deletes what is done has done all.

    Its newest job goes last, or nearly so: until then nobody looks among dead rows.
    """
    newest = f"SELECT pg_sequence_last_value(pg_get_serial_sequence('{table}', 'id')::regclass)"
    return (
        f"SELECT NOT EXISTS (SELECT FROM {table} WHERE id = ({newest}))"
        f" AND NOT EXISTS (SELECT FROM {table})"
    )


def deleted_from(table: str) -> str:
    """Return how a system that deletes what is done tells how much that was."""
    return f"SELECT n_tup_del FROM pg_stat_user_tables WHERE relid = '{table}'::regclass"
