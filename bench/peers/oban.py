"""oban for Python: one table of jobs; finished ones are kept for a day."""

from bench.peers.base import PythonPeer
from bench.systems import Probes

_LIVE = "state IN ('available', 'scheduled', 'executing', 'retryable')"


def oban() -> PythonPeer:
    """Return the adapter."""
    return PythonPeer(
        name="oban-py",
        tuning="queue limit 1000, psycopg pool of 10, uvloop",
        keeps="the job row",
        probes=Probes(
            taken="SELECT EXISTS (SELECT FROM oban_jobs WHERE state <> 'available')",
            empty=f"SELECT (SELECT j.id FROM oban_jobs j WHERE {_LIVE} ORDER BY j.id DESC LIMIT 1)"
            " IS NULL",
            left=f"SELECT count(*) FROM oban_jobs WHERE {_LIVE}",
        ),
        packages=("oban==0.7.0", "uvloop==0.23.0"),
        slow=True,
        volatile=("oban_leaders", "oban_producers"),
        program="oban_peer",
        least=(3, 12),
    )
