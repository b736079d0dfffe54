"""Says what the statements of this room have written, once it is committed (R-7.1).

The counts of a batch travel together: what a job costs here, it costs twenty thousand times a
second.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Settlement
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.lease.signals import (
    JOBS_STARTED,
    LEASES_ACQUIRED,
    RETRIES_CHARGED,
    LeaseCount,
    Started,
)
from jobqueue.runtime.signals import Signal
from jobqueue.store.leases import HeldLease, LeaseAnswer
from jobqueue.store.signals import JOBS_MOVED, Move, tell_moved


def count_jobs(signal: Signal[LeaseCount], jobs: Sequence[LeasedJob]) -> None:
    """Emit how many of ``jobs`` are of which queue."""
    for queue, count in Counter(job.queue for job in jobs).items():
        signal.emit(LeaseCount(queue, count))


def tell_claimed(jobs: Sequence[LeasedJob]) -> None:
    """Say that these were claimed, and those that run, started."""
    count_jobs(LEASES_ACQUIRED, jobs)
    running = [Started(job.queue, job.waited_s) for job in jobs if job.running]
    tell_moved(Counter(job.queue for job in jobs), JobStatus.ASSIGNED, Reason.CLAIMED)
    _tell_running(running)


def tell_found(leases: Sequence[HeldLease]) -> None:
    """Say that these had been claimed, by a statement whose answer was lost."""
    tell_moved(Counter(held.queue for held in leases), JobStatus.ASSIGNED, Reason.CLAIMED)
    running = Counter(held.queue for held in leases if held.running)
    tell_moved(running, JobStatus.RUNNING, Reason.STARTED)


def tell_started(answers: Sequence[LeaseAnswer], *, unclear: bool) -> None:
    """Say what a start did. ``unclear``: what an earlier try did was not said yet."""
    written = [a for a in answers if a.fresh or unclear]
    _tell_running([Started(a.queue, a.waited_s) for a in written if a.state == "started"])
    expired = Counter(a.queue for a in written if a.state == "expired")
    tell_moved(expired, JobStatus.FAILED, Reason.TTL_EXPIRED)
    tell_moved(expired, JobStatus.DEAD_LETTERED, Reason.TTL_EXPIRED)


def tell_settled(
    answers: Sequence[LeaseAnswer],
    settlements: Sequence[Settlement],
    queues: Mapping[Lease, str],
    *,
    unclear: bool,
) -> None:
    """Say what a settle did. ``unclear``: what an earlier try did was not said yet."""
    asked = {settlement.lease: settlement for settlement in settlements}
    ends = Counter(
        (queues[a.lease], asked[a.lease].end(cancelled=a.cancelled))
        for a in answers
        if a.state == "settled" and (a.fresh or unclear)
    )
    moves: Counter[Move] = Counter()
    retries: Counter[str] = Counter()
    for (queue, end), count in ends.items():
        moves.update({Move(queue, status, reason): count for status, reason in end.moves()})
        if end.charges_retry:
            retries[queue] += count
    if moves:
        JOBS_MOVED.emit(moves)
    if retries:
        RETRIES_CHARGED.emit(retries)


def _tell_running(started: Sequence[Started]) -> None:
    if started:
        JOBS_STARTED.emit(started)
    tell_moved(Counter(s.queue for s in started), JobStatus.RUNNING, Reason.STARTED)
