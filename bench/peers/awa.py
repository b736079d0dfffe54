"""awa: Rust, driven by its Python package; append-only segments instead of updated rows."""

from bench.peers.base import PythonPeer
from bench.systems import Probes

_DONE = (
    "(SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)"
    " + (SELECT count(*) FROM awa.done_entries)"
    " + (SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups)"
)
_STORED = "(SELECT last_value FROM awa.job_id_seq WHERE is_called)"


def awa() -> PythonPeer:
    """Return the adapter. What is done is in batches of completions, and in rollups of old ones."""
    return PythonPeer(
        name="awa",
        tuning="queue storage, 1024 workers, poll 5 ms, COPY enqueue, Python handlers",
        keeps="the job, its completion in a batch",
        probes=Probes(
            taken="SELECT EXISTS (SELECT FROM awa.lease_claim_batches)"
            " OR EXISTS (SELECT FROM awa.lease_claims)",
            empty=f"SELECT {_DONE} >= coalesce({_STORED}, 0)",
            left=f"SELECT coalesce({_STORED}, 0) - ({_DONE})",
        ),
        packages=("awa-pg==0.6.9",),
        slow=True,
        program="awa_peer",
    )
