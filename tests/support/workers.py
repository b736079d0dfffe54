"""What a worker of the tests says about itself."""

from collections.abc import Sequence

from jobqueue.domain.worker import WorkerFacts


def facts(
    worker_id: str = "w-1", *, queues: Sequence[str] = ("q",), pid: int = 1, concurrency: int = 4
) -> WorkerFacts:
    """Return the facts of a direct worker of type ``t``."""
    return WorkerFacts(
        worker_id, "host", pid, tuple(queues), ("t",), concurrency, "direct", "0.1.0"
    )
