"""graphile-worker: Node.js, the fastest peer we know on PostgreSQL."""

from bench.peers.base import NodePeer, deleted_from, nothing_in
from bench.systems import Probes

_JOBS = "graphile_worker._private_jobs"


def graphile_worker() -> NodePeer:
    """Return the adapter, with the batching that its page on performance recommends."""
    return NodePeer(
        name="graphile-worker",
        tuning="localQueue 500, completeJobBatchDelay 0, concurrentJobs 24",
        keeps="nothing: the job row is deleted",
        probes=Probes(
            # The oldest job goes first, or nearly so: nobody looks through all that wait.
            taken=f"SELECT (SELECT j.is_available FROM {_JOBS} j ORDER BY j.id LIMIT 1)"
            " IS NOT TRUE",
            empty=nothing_in(_JOBS),
            left=f"SELECT count(*) FROM {_JOBS}",
            done=deleted_from(_JOBS),
        ),
        packages=("graphile-worker@0.17.3",),
        program="graphile_worker_peer.mjs",
        least=(20, 0),
    )
