"""Says what the statements of this room have written, once it is committed (R-7.1).

The counts of a batch travel together: what a job costs here, it costs twenty thousand times a
second.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import End, Settlement
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.lease.signals import JOBS_STARTED, LEASES_ACQUIRED, RETRIES_CHARGED, LeaseCount
from jobqueue.runtime.signals import Signal
from jobqueue.store.leases import HeldLease, LeaseAnswer
from jobqueue.store.signals import JOBS_MOVED, Move, tell_moved

Asked = Mapping[Lease, tuple[str, Settlement]]
"""What was asked of a settle, with the queue of each."""

Waits = defaultdict[str, list[float | None]]
"""By queue, how long each job had been ready, where that is known."""


def count_jobs(signal: Signal[LeaseCount], jobs: Iterable[LeasedJob]) -> Counter[str]:
    """Emit how many of ``jobs`` are of which queue, and return it."""
    counts = Counter([job.queue for job in jobs])
    for queue, count in counts.items():
        signal.emit(LeaseCount(queue, count))
    return counts


def tell_claimed(jobs: Sequence[LeasedJob]) -> None:
    """Say that these were claimed, and those that run, started."""
    tell_moved(count_jobs(LEASES_ACQUIRED, jobs), JobStatus.ASSIGNED, Reason.CLAIMED)
    waits: Waits = defaultdict(list)
    for job in jobs:
        if job.running:
            waits[job.queue].append(job.waited_s)
    _tell_running(waits)


def tell_found(leases: Sequence[HeldLease]) -> None:
    """Say that these had been claimed, by a statement whose answer was lost."""
    tell_moved(Counter(held.queue for held in leases), JobStatus.ASSIGNED, Reason.CLAIMED)
    running = Counter(held.queue for held in leases if held.running)
    tell_moved(running, JobStatus.RUNNING, Reason.STARTED)


def tell_started(answers: Sequence[LeaseAnswer], *, unclear: bool) -> None:
    """Say what a start did. ``unclear``: what an earlier try did was not said yet."""
    written = [a for a in answers if a.fresh or unclear]
    waits: Waits = defaultdict(list)
    for answer in written:
        if answer.state == "started":
            waits[answer.queue].append(answer.waited_s)
    _tell_running(waits)
    expired = Counter(a.queue for a in written if a.state == "expired")
    tell_moved(expired, JobStatus.FAILED, Reason.TTL_EXPIRED)
    tell_moved(expired, JobStatus.DEAD_LETTERED, Reason.TTL_EXPIRED)


def tell_done(queues: Iterable[str]) -> None:
    """Say that a job of each of these was completed."""
    tell_moved(Counter(queues), JobStatus.DONE, Reason.COMPLETED)


def tell_settled(answers: Sequence[LeaseAnswer], asked: Asked, *, unclear: bool) -> None:
    """Say what a settle did. ``unclear``: what an earlier try did was not said yet.

    Answers about leases that are not in ``asked`` are passed over.
    """
    ends: Counter[tuple[str, End]] = Counter()
    for answer in answers:
        entry = asked.get(answer.lease)
        if entry and answer.state == "settled" and (answer.fresh or unclear):
            queue, settlement = entry
            ends[queue, settlement.end(cancelled=answer.cancelled)] += 1
    _tell_ends(ends)


def _tell_ends(ends: Mapping[tuple[str, End], int]) -> None:
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


def _tell_running(waits: Waits) -> None:
    if waits:
        JOBS_STARTED.emit(waits)
        counts = {queue: len(each) for queue, each in waits.items()}
        tell_moved(counts, JobStatus.RUNNING, Reason.STARTED)
