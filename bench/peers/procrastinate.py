"""procrastinate: Python, one table of jobs, a table of events filled by triggers."""

from bench.peers.base import PythonPeer
from bench.systems import Probes

_JOBS = "procrastinate_jobs"
_LIVE = "status IN ('todo', 'doing')"


def procrastinate() -> PythonPeer:
    """Return the adapter. It fetches one job at a time; concurrency is its only lever."""
    return PythonPeer(
        name="procrastinate",
        tuning="concurrency 20, psycopg pool of 20, uvloop",
        keeps="the job row, 4 events by triggers",
        probes=Probes(
            taken=f"SELECT EXISTS (SELECT FROM {_JOBS} WHERE status <> 'todo')",
            empty=f"SELECT (SELECT j.id FROM {_JOBS} j WHERE {_LIVE} ORDER BY j.id DESC LIMIT 1)"
            " IS NULL",
            left=f"SELECT count(*) FROM {_JOBS} WHERE {_LIVE}",
        ),
        packages=("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.9", "uvloop==0.23.0"),
        slow=True,
        program="procrastinate_peer",
    )
