"""What the scheduler did, for those who count it."""

from collections.abc import Mapping

from jobqueue.runtime.signals import Signal

JOBS_PROMOTED: Signal[Mapping[str, int]] = Signal("jobs_promoted")
"""By queue: jobs that became claimable because their time had come."""
SCHEDULER_CYCLE: Signal[float] = Signal("scheduler_cycle")
"""The scheduler looked for due jobs, made a batch of them ready and announced it, in so many
seconds."""
