"""Who takes part."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.errors import NotInstallable
from bench.ours import Ours
from bench.peers.awa import awa
from bench.peers.graphile_worker import graphile_worker
from bench.peers.oban import oban
from bench.peers.pg_boss import pg_boss
from bench.peers.pgqueuer import pgqueuer
from bench.peers.procrastinate import procrastinate
from bench.systems import System

UNMEASURED = {
    "River": "it needs Go, and has no adapter here; it publishes 46,000 jobs/s for a drain by one"
    " process on 8 cores (riverqueue.com/docs/benchmarks)"
}
"""Peers that are known by their own figures only, and those are no comparison."""

PEERS: tuple[Callable[[], System], ...] = (
    graphile_worker,
    pg_boss,
    pgqueuer,
    awa,
    procrastinate,
    oban,
)


def contestants(names: frozenset[str]) -> list[System]:
    """Return ours, which always takes part, and the chosen peers, not installed yet."""
    return [Ours(), *(peer for make in PEERS if (peer := make()).name in names)]


async def install(
    names: frozenset[str], cache: Path, say: Callable[[str], None]
) -> tuple[dict[str, System], dict[str, str], dict[str, str]]:
    """Make the environments of the contestants.

    Returns systems, their versions, and for peers that cannot be had the reason.
    """
    systems: dict[str, System] = {}
    versions: dict[str, str] = {}
    absent = dict(UNMEASURED) if names else {}
    for system in contestants(names):
        say(f"installing {system.name}")
        try:
            versions[system.name] = await system.install(cache)
            systems[system.name] = system
        except (NotInstallable, OSError, subprocess.SubprocessError) as error:
            absent[system.name] = str(error)
            say(f"  not installable: {error}")
    return systems, versions, absent
