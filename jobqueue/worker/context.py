"""What a handler sees of its job."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from uuid import UUID

from jobqueue.domain.records import record


@record
class Context:
    """One attempt at one job, the same for async, child-process and thread handlers.

    ``attempt`` counts from 1. ``deadline`` is the ``time.monotonic()`` of this process at which
    the attempt is stopped; None without a timeout.
    """

    job_id: UUID
    queue: str
    type: str | None
    payload: bytes = field(repr=False)
    attempt: int
    deadline: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    _stopping: Callable[[], bool] = field(
        default_factory=lambda: threading.Event().is_set, repr=False, compare=False
    )

    def cancelled(self) -> bool:
        """Return True once the attempt should end: timeout, cancel, shutdown or lost lease.

        Thread handlers must ask now and then, they cannot be stopped. The others are stopped
        anyway: an async one by cancellation, a sync one by SIGTERM, which raises SystemExit.
        """
        return self._stopping()
