"""pg-boss: Node.js, one table of jobs that are kept until a sweep."""

from bench.peers.base import NodePeer
from bench.systems import Probes

_JOBS = "pgboss.job"
_LIVE = "name = 'noop' AND state < 'completed'"


def pg_boss() -> NodePeer:
    """Return the adapter: its `work` with the burst mode that fetches while batches are full."""
    return NodePeer(
        name="pg-boss",
        tuning="work: batchSize 500, localConcurrency 4, burstWhenBatchFull, poll 0.5 s",
        keeps="the job row",
        probes=Probes(
            taken=f"SELECT EXISTS (SELECT FROM {_JOBS} WHERE name = 'noop' AND state >= 'active')",
            empty=f"SELECT NOT EXISTS (SELECT FROM {_JOBS} WHERE {_LIVE})",
            left=f"SELECT count(*) FROM {_JOBS} WHERE {_LIVE}",
        ),
        packages=("pg-boss@12.38.0",),
        program="pg_boss_peer.mjs",
        least=(22, 12),
    )
