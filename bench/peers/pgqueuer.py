"""pgqueuer: Python, a table of waiting jobs and a log table. The closest peer in language."""

from bench.peers.base import PythonPeer, deleted_from, nothing_in
from bench.systems import Probes


def pgqueuer() -> PythonPeer:
    """Return the adapter. It runs as durable as ours: none of its tables is UNLOGGED."""
    return PythonPeer(
        name="pgqueuer",
        tuning="batch_size 100, 4 consumers a process, asyncpg, uvloop, durable, own autovacuum",
        keeps="3 log rows; the job row is deleted",
        probes=Probes(
            taken="SELECT EXISTS (SELECT FROM pgqueuer WHERE status = 'picked')",
            empty=nothing_in("pgqueuer"),
            left="SELECT count(*) FROM pgqueuer",
            done=deleted_from("pgqueuer"),
        ),
        packages=("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
        program="pgqueuer_peer",
    )
