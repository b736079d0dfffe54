"""What the queue promises, said a second time: requirements §3 and §4 over plain data.

Nothing of the product is imported, so that a rule that it has wrong is not wrong here too. Times
are seconds since an example began. Where chance has a say, the model knows the bounds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tests.model.facts import Event, Hold, Item, Job, Policy, Queue

Answer = tuple[str, UUID | None]
"""What became of a submission, and which job it is now."""

PENDING, ASSIGNED, RUNNING, DONE = "PENDING", "ASSIGNED", "RUNNING", "DONE"
FAILED, DEAD = "FAILED", "DEAD_LETTERED"
CRASH_LIMIT, UNSTARTED_LIMIT = 3, 10
HORIZON_S = 1e6
REFUSED = frozenset({"NO_QUEUE", "TOO_FAR", "MISMATCH"})
_UNHANDLED = Policy(base_s=5.0, cap_s=60.0)
_REPORTS = {"HANDLER_FAILED", "TIMED_OUT", "REFUSED", "RETRY_LATER", "CANCELLED", "COMPLETED"}
"""Outcomes that show that the job does not kill its workers."""


@dataclass
class Model:
    """All jobs and queues as they must be, and the ``news``: transitions not compared yet."""

    now: float = 0.0
    queues: list[Queue] = field(default_factory=list)
    jobs: dict[UUID, Job] = field(default_factory=dict)
    keys: dict[tuple[str, str], tuple[UUID, object]] = field(default_factory=dict)
    news: list[Event] = field(default_factory=list)
    submitted: int = 0

    # Queues.

    def queue(self, name: str) -> Queue | None:
        """Return the queue of this name that is not deleted."""
        return next((q for q in self.queues if q.name == name and not q.deleted), None)

    def create_queue(self, name: str, policy: Policy) -> bool:
        """Make a queue; False when there is one of this name."""
        if self.queue(name):
            return False
        self.queues.append(Queue(name, policy))
        return True

    def delete_queue(self, name: str, *, force: bool) -> str:
        """Delete a queue: deleted, not_empty or not_found."""
        queue = self.queue(name)
        if queue is None:
            return "not_found"
        if not force and any(job.live for job in self.of(queue)):
            return "not_empty"
        queue.deleted = True
        return "deleted"

    def sweep(self) -> None:
        """Cancel what deleted queues still hold."""
        for job in self.jobs.values():
            if job.queue.deleted and job.live:
                self.cancel(job.job_id, running=True)

    def of(self, queue: Queue) -> Iterator[Job]:
        """Yield the jobs of a queue."""
        return (job for job in self.jobs.values() if job.queue is queue)

    # Submission.

    def submit(self, items: Sequence[tuple[UUID, Item]], *, atomic: bool) -> list[Answer]:
        """Return what becomes of each item; atomic: one that is refused, and none is stored."""
        keys, ids, answers = dict(self.keys), set(self.jobs), []
        for job_id, item in items:
            answers.append(self._verdict(job_id, item, keys, ids))
            if answers[-1][0] == "NEW":
                ids.add(job_id)
                if item.key is not None:
                    keys[item.tenant, item.key] = (job_id, item.content)
        if not (atomic and any(word in REFUSED for word, _ in answers)):
            for (job_id, item), (word, _) in zip(items, answers, strict=True):
                if word == "NEW":
                    self._store(job_id, item)
        return answers

    def _verdict(
        self,
        job_id: UUID,
        item: Item,
        keys: dict[tuple[str, str], tuple[UUID, object]],
        ids: set[UUID],
    ) -> Answer:
        if self.queue(item.queue) is None:
            return "NO_QUEUE", None
        if item.not_before is not None and item.not_before > self.now + HORIZON_S:
            return "TOO_FAR", None
        if item.key is not None and (item.tenant, item.key) in keys:
            owner, content = keys[item.tenant, item.key]
            if owner != job_id:
                return ("EXISTING", owner) if content == item.content else ("MISMATCH", None)
        return ("REPEATED" if job_id in ids else "NEW"), job_id

    def _store(self, job_id: UUID, item: Item) -> None:
        queue = self.queue(item.queue)
        assert queue is not None, "the verdict would have been NO_QUEUE"
        policy = queue.policy
        due = item.not_before if item.not_before is not None else self.now + item.delay_s
        begins = max(due, self.now)
        ttl_s = policy.ttl_s if item.ttl_s is None else item.ttl_s
        self.submitted += 1
        job = Job(
            job_id,
            self.submitted,
            queue,
            item,
            policy.max_retries if item.max_retries is None else item.max_retries,
            ttl_s,
            not_before=begins if begins > self.now else None,
            ready_at=begins,
            due=begins if begins > self.now else None,
            ttl_end=None if ttl_s is None else begins + ttl_s,
            due_latest=begins,
        )
        self.jobs[job_id] = job
        if job.key is not None:
            self.keys[job.key] = (job_id, item.content)
        self._move(job, PENDING, "SUBMITTED")

    # Claims and leases.

    def line(self, names: Iterable[str]) -> list[Job]:
        """Return what may be claimed from these queues, in the order of service."""
        queues = [q for name in names if (q := self.queue(name)) and not q.paused]
        waiting = [j for j in self.jobs.values() if j.queue in queues and self._claimable(j)]
        return sorted(
            waiting,
            key=lambda j: (-j.item.priority, queues.index(j.queue), j.ready_at, j.number),
        )

    def _claimable(self, job: Job) -> bool:
        return job.status == PENDING and job.due is None and not self._outlived(job)

    def _outlived(self, job: Job) -> bool:
        return job.ttl_end is not None and job.ttl_end <= self.now

    def held(self, queue: Queue) -> int:
        """Return how many jobs of a queue are ASSIGNED or RUNNING."""
        return sum(job.hold is not None for job in self.of(queue))

    def take(self, job: Job, worker: int, token: int, lease_s: float, *, start: bool) -> None:
        """Give a job to a worker."""
        job.hold = Hold(worker, token, job.queue.policy, self.now, self.now + lease_s)
        job.ended_token, job.due = None, None
        if start:
            job.attempt += 1  # both transitions tell which start this is
            self._move(job, ASSIGNED, "CLAIMED")
            job.attempt -= 1
            self._start(job, lease_s)
        else:
            self._move(job, ASSIGNED, "CLAIMED")

    def start(self, worker: int, job_id: UUID, token: int, lease_s: float) -> tuple[str, bool]:
        """Start an ASSIGNED job: (started, expired or lost; whether this did it)."""
        job = self._leased(worker, job_id, token)
        if job is None:
            return "lost", False
        if job.status == RUNNING:
            return "started", False
        if self._outlived(job):
            self._fail_for_good(job, "TTL_EXPIRED", "TTL_EXPIRED", token)
            return "expired", True
        self._start(job, lease_s)
        return "started", True

    def _start(self, job: Job, lease_s: float) -> None:
        assert job.hold is not None, "only what is held is started"
        job.attempt += 1
        job.handbacks = job.unhandled = 0
        job.ttl_end = None
        job.hold.started_at, job.hold.expires_at = self.now, self.now + lease_s
        self._move(job, RUNNING, "STARTED")

    def renew(self, worker: int, job_id: UUID, token: int, lease_s: float) -> tuple[str, bool]:
        """Renew a lease: (renewed or lost; whether the job is to be cancelled)."""
        job = self._leased(worker, job_id, token)
        if job is None or job.hold is None:
            return "lost", False
        job.hold.expires_at = self.now + lease_s
        return "renewed", job.hold.cancel

    def _leased(self, worker: int, job_id: UUID, token: int) -> Job | None:
        """Return the job if this worker holds it by this token."""
        job = self.jobs.get(job_id)
        held = job is not None and job.hold is not None
        fits = held and job.hold.worker == worker and job.hold.token == token  # type: ignore[union-attr]
        return job if fits else None

    # Ends.

    def settle(
        self, worker: int, job_id: UUID, token: int, reason: str, delay_s: float = 0.0
    ) -> tuple[str, bool]:
        """End an attempt with a reported outcome: (settled or lost; whether this did it)."""
        job = self._leased(worker, job_id, token)
        if job is None or (reason == "COMPLETED" and job.status != RUNNING):
            known = self.jobs.get(job_id)
            return ("settled" if known and known.ended_token == token else "lost"), False
        assert job.hold is not None, "it is leased"
        if reason == "COMPLETED":
            job.crashes = job.handbacks = job.unhandled = 0
            self._finish(job, DONE, "COMPLETED", token)
        else:
            self._end(job, reason, job.hold.policy, token, delay_s)
        return "settled", True

    def _end(
        self, job: Job, reason: str, policy: Policy, token: int | None, delay_s: float = 0.0
    ) -> None:
        """Write what an attempt costs that did not succeed, and where the job goes."""
        assert job.hold is not None, "only what is held ends"
        if job.hold.cancel or reason == "CANCELLED":
            self._fail_for_good(job, "CANCELLED", "CANCELLED", token)
            return
        crashed = reason == "LEASE_EXPIRED" and self._count_loss(job)
        if reason in _REPORTS:
            job.crashes = job.handbacks = job.unhandled = 0
        if crashed and job.crashes >= CRASH_LIMIT:
            self._fail_for_good(job, reason, "CRASH_LIMIT", token)
        elif reason == "REFUSED":
            self._fail_for_good(job, reason, "REFUSED", token)
        elif reason == "RELEASED" or (reason == "LEASE_EXPIRED" and job.status == ASSIGNED):
            self._hand_back(job, reason)
        elif reason == "RETRY_LATER":
            self._wait(job, reason, (delay_s, delay_s), token)
        elif reason == "NO_HANDLER":
            wait_s = backoff(_UNHANDLED, job.unhandled)[0]
            job.unhandled += 1
            self._wait(job, reason, (wait_s, wait_s), token)
        elif job.retries >= job.max_retries:
            self._fail_for_good(job, reason, "RETRIES_EXHAUSTED", token)
        else:
            job.retries += 1
            self._wait(job, reason, backoff(policy, job.retries - 1), token)

    def _count_loss(self, job: Job) -> bool:
        """Count a lost lease; return whether it is a crash."""
        if job.status == ASSIGNED:
            job.handbacks += 1
            if job.handbacks < UNSTARTED_LIMIT:
                return False
        job.handbacks = 0
        job.crashes += 1
        return True

    def _wait(self, job: Job, reason: str, wait_s: tuple[float, float], token: int | None) -> None:
        self._move(job, FAILED, reason)
        job.hold, job.ended_token = None, token
        job.due, job.due_latest = self.now + wait_s[0], self.now + wait_s[1]

    def _hand_back(self, job: Job, reason: str) -> None:
        self._move(job, FAILED, reason)
        self._move(job, PENDING, reason)
        job.hold = None

    def _fail_for_good(self, job: Job, reason: str, dead: str, token: int | None) -> None:
        self._move(job, FAILED, reason)
        self._finish(job, DEAD, dead, token)

    def _finish(self, job: Job, status: str, reason: str, token: int | None = None) -> None:
        started = job.hold.started_at if job.hold else None
        worker = job.hold.worker if job.hold else None
        self._move(job, status, reason)
        job.started_at, job.ended_by, job.finished_at = started, worker, self.now
        job.hold, job.due, job.ttl_end, job.ended_token = None, None, None, token

    # What time does.

    def reap(self) -> None:
        """Take back leases that ran out."""
        for job in self.jobs.values():
            if job.hold is not None and job.hold.expires_at < self.now:
                self._end(job, "LEASE_EXPIRED", job.queue.policy, None)

    def reap_unstarted(self, timeout_s: float) -> None:
        """Take back what was assigned and not started in time."""
        for job in self.jobs.values():
            if job.status == ASSIGNED and job.hold and job.hold.claimed_at + timeout_s < self.now:
                self._end(job, "ASSIGNMENT_TIMEOUT", job.queue.policy, None)

    def promote(self) -> None:
        """Make ready what is due."""
        for job in self.jobs.values():
            if job.due is not None and job.due <= self.now:
                job.ready_at, job.due, job.ended_token = job.due, None, None
                if job.status == FAILED:
                    self._move(job, PENDING, "RETRY_DUE")

    def expire(self) -> None:
        """End what was never started in its time."""
        for job in self.jobs.values():
            if job.status in {PENDING, FAILED} and self._outlived(job):
                self._finish(job, DEAD, "TTL_EXPIRED")

    def prune(self, retention_s: float) -> None:
        """Forget jobs that are DONE for longer than this."""
        for job in list(self.jobs.values()):
            if job.status == DONE and job.finished_at < self.now - retention_s:
                self._forget(job)

    # What an operator does.

    def cancel(self, job_id: UUID, *, running: bool) -> str:
        """Cancel a job: CANCELLED, REQUESTED, NOT_FOUND, or the status that forbids it."""
        job = self.jobs.get(job_id)
        if job is None:
            return "NOT_FOUND"
        if job.status in {DONE, DEAD} or (job.status == RUNNING and not running):
            return job.status
        if job.hold is not None and job.status == RUNNING:
            job.hold.cancel = True
            return "REQUESTED"
        self._finish(job, DEAD, "CANCELLED")
        return "CANCELLED"

    def retry(self, job_id: UUID) -> str:
        """Let a job run again: RETRIED, or why not."""
        job = self.jobs.get(job_id)
        if job is None:
            return "NOT_FOUND"
        if job.status not in {FAILED, DEAD}:
            return job.status
        if job.queue.deleted:
            return "QUEUE_DELETED"
        if job.status == DEAD:
            job.attempt = 0
        job.retries = job.crashes = job.handbacks = job.unhandled = 0
        job.ready_at, job.due, job.ended_token = self.now, None, None
        job.ttl_end = None if job.ttl_s is None else self.now + job.ttl_s
        self._move(job, PENDING, "OPERATOR_RETRY")
        return "RETRIED"

    def delete(self, job_id: UUID) -> str:
        """Delete a finished job: DELETED, or why not."""
        job = self.jobs.get(job_id)
        if job is None:
            return "NOT_FOUND"
        if job.live:
            return job.status
        self._forget(job)
        return "DELETED"

    def _forget(self, job: Job) -> None:
        del self.jobs[job.job_id]
        if job.key is not None and self.keys[job.key][0] == job.job_id:
            del self.keys[job.key]

    def _move(self, job: Job, to: str, reason: str) -> None:
        """Note a transition (R-3.6, R-3.7); whoever holds the job is its worker."""
        hold = job.hold
        job.seq += 1
        worker, token = (hold.worker, hold.token) if hold else (None, None)
        event = Event(
            job.job_id, job.seq, job.status, to, reason, job.attempt, worker, token, self.now
        )
        self.news.append(event)
        if job.status == RUNNING and reason not in {"RELEASED", "RETRY_LATER"}:
            job.queue.ended += 1
            job.queue.failed += to == FAILED
        job.queue.entered[to] += 1
        job.status, job.reason = to, reason

    def depths(self, queue: Queue) -> Counter[str]:
        """Count the jobs of a queue by status."""
        return Counter(job.status for job in self.of(queue))


def backoff(policy: Policy, retries: int) -> tuple[float, float]:
    """Return the shortest and the longest wait (R-3.8)."""
    wait_s = min(policy.base_s * policy.multiplier**retries, policy.cap_s)
    return wait_s, wait_s * 1.2
