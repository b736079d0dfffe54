"""Where the database and the model must agree. ``Disagreement`` says in what they do not."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from uuid import UUID

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.queue import QueueStats
from jobqueue.domain.state import JobStatus
from tests.model.database import Seen
from tests.model.facts import Event, Job, Queue
from tests.model.model import ASSIGNED, DEAD, PENDING, Model

_ROUNDING_S = 1e-5


class Disagreement(AssertionError):
    """The database is not what the model says."""


def agree(what: str, expected: object, found: object) -> None:
    """Raise Disagreement unless both are equal."""
    if expected != found:
        raise Disagreement(f"{what}\n  model:    {expected}\n  database: {found}")


def claim_agrees(model: Model, names: Sequence[str], n: int, taken: Sequence[Job]) -> None:
    """Compare a claim: exactly the order of R-3.15, unless weights or limits have a say in it."""
    line = model.line(names)
    rooms = {q: room for q in {job.queue for job in line} if (room := _room(model, q)) is not None}
    for queue, room in rooms.items():
        agree(f"no more than max_running of {queue.name}", True, _of(taken, queue) <= room)
    possible = sum(
        min(n_there, rooms.get(queue, n_there))
        for queue, n_there in Counter(job.queue for job in line).items()
    )
    agree("a claim takes what there is", min(n, possible), len(taken))
    if not any(job.queue.policy.weights or job.queue in rooms for job in line):
        orders = [_names(model.line(turn)[:n]) for turn in permutations(names)]
        agree("the order of a claim, whichever queue's turn it is", True, _names(taken) in orders)
    for place, there in _by_place(line).items():
        mine = _by_place(taken).get(place, [])
        agree(f"the order within {place}", _names(there[: len(mine)]), _names(mine))


def _room(model: Model, queue: Queue) -> int | None:
    limit = queue.policy.max_running
    return None if limit is None else max(limit - model.held(queue), 0)


def _of(jobs: Sequence[Job], queue: Queue) -> int:
    return sum(job.queue is queue for job in jobs)


def _by_place(jobs: Sequence[Job]) -> dict[tuple[str, int], list[Job]]:
    places = defaultdict(list)
    for job in jobs:
        places[job.queue.name, job.item.priority].append(job)
    return places


def _names(jobs: Sequence[Job]) -> list[str]:
    return [f"{job.number}:{job.queue.name}:{job.item.priority}" for job in jobs]


def leased_agrees(job: Job, leased: LeasedJob) -> None:
    """Compare a job that was just claimed with what its worker was given."""
    item, counters, policy = job.item, leased.counters, job.queue.policy
    expected = (
        (job.queue.name, item.type, item.payload, item.priority, job.max_retries),
        job.attempt + (not leased.running),
        (job.retries, job.crashes, job.handbacks, job.unhandled),
        (policy.base_s, policy.cap_s, policy.multiplier),
    )
    given = (
        (leased.queue, leased.type, leased.payload, leased.priority, leased.max_retries),
        leased.attempt,
        (counters.retries, counters.crashes, counters.handbacks, counters.unhandled),
        (leased.policy.base_delay_s, leased.policy.max_delay_s, leased.policy.multiplier),
    )
    agree(f"what the worker of job {job.number} is given", expected, given)


def jobs_agree(model: Model, seen: Mapping[UUID, Seen], workers: Mapping[int, str]) -> None:
    """Compare every job; where the model knows a span, adopt the time that was drawn from it."""
    agree("which jobs there are, in their order", list(model.jobs), list(seen))
    for job in model.jobs.values():
        found = seen[job.job_id]
        if job.due is not None:
            drawn = found.not_before
            if drawn is None or not job.due - _ROUNDING_S <= drawn <= job.due_latest + _ROUNDING_S:
                span = f"{job.due} to {job.due_latest}"
                raise Disagreement(f"job {job.number} is due at {drawn}, not from {span}")
            job.due = job.due_latest = drawn
        agree(f"job {job.number}", _expected(job, workers), found)


def _expected(job: Job, workers: Mapping[int, str]) -> Seen:
    hold, ready = job.hold, job.status in {PENDING, ASSIGNED, "RUNNING"} and job.due is None
    worker = hold.worker if hold else job.ended_by
    shown = Seen(
        job.status,
        job.reason,
        job.seq,
        job.attempt,
        job.retries,
        workers[worker] if worker and (hold or not job.live) else None,
        hold.token if hold else (None if job.live else job.ended_token),
        job.not_before if job.due is None else job.due,
        hold.started_at if hold else (None if job.live else job.started_at),
        None if job.live else job.finished_at,
        bool(hold and hold.cancel),
    )
    if not job.live:
        return shown
    return replace(
        shown,
        crashes=job.crashes,
        handbacks=job.handbacks,
        unhandled=job.unhandled,
        ready_at=job.ready_at if ready else None,
        ttl_end=job.ttl_end,
        lease_end=hold.expires_at if hold else None,
    )


def events_agree(model: Model, found: Sequence[Event]) -> None:
    """Compare the transitions since the last time, job by job."""
    expected, model.news = model.news, []
    agree("events", _by_job(expected), _by_job(found))


def _by_job(events: Sequence[Event]) -> dict[UUID, list[Event]]:
    by_job: dict[UUID, list[Event]] = defaultdict(list)
    for event in events:
        # Whoever cancels an ASSIGNED job ends no attempt: there is no token to name.
        idle = event.was == ASSIGNED and event.became == DEAD
        by_job[event.job_id].append(event._replace(token=None) if idle else event)
    return dict(by_job)


def figures_agree(model: Model, stats: Sequence[QueueStats]) -> None:
    """Compare the figures of every queue (R-5.2)."""
    queues = {queue.name: queue for queue in model.queues if not queue.deleted}
    agree("which queues there are", sorted(queues), [s.queue for s in stats])
    for s in stats:
        queue = queues[s.queue]
        found = (
            Counter({str(status): n for status, n in s.depth.items() if n}),
            s.done_total,
            s.dead_total,
            s.error_rate,
            s.unhandled,
            None if s.oldest_runnable_s is None else round(s.oldest_runnable_s, 5),
            s.paused,
        )
        agree(f"the figures of {queue.name}", _figures(model, queue), found)


def _figures(model: Model, queue: Queue) -> tuple[object, ...]:
    ages = [
        round(model.now - j.ready_at, 5)  # PostgreSQL 15 has some microseconds less
        for j in model.of(queue)
        if j.status == PENDING and not j.due
    ]
    return (
        model.depths(queue),
        queue.entered[JobStatus.DONE],
        queue.entered[JobStatus.DEAD_LETTERED],
        queue.failed / queue.ended if queue.ended else None,
        sum(job.unhandled > 0 for job in model.of(queue) if job.due is not None),
        max(ages, default=None),
        queue.paused,
    )
