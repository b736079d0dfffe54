"""Drives the store and the model side by side, and compares them after every step."""

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Charge, decide
from jobqueue.lease.claimer import Claimer
from jobqueue.lease.probes import ProbePlan
from jobqueue.store import jobs as job_store
from jobqueue.store import leases as lease_store
from jobqueue.store import queues as queue_store
from jobqueue.store.faults import DRIVER_ERRORS, rejected_item
from tests.model import compare, draws
from tests.model.compare import agree
from tests.model.database import LONGEST_S, Database
from tests.model.draws import Ending, picks
from tests.model.facts import Item, Job, Policy, Queue
from tests.model.model import ASSIGNED, HORIZON_S, PENDING, REFUSED, Model
from tests.model.server import Server
from tests.support.store import Stored, delete_queue, store_items

T = TypeVar("T")

LEASE_S = 30.5
"""No sum of the times that pass: nothing says what holds at the very end of a lease."""

WINDOW_S = 30 * 86_400.0


class Ticket(NamedTuple):
    """A lease as its worker has it, for ever."""

    worker: int
    job: LeasedJob


class QueueMachine(RuleBasedStateMachine):
    """Each rule does one thing to both; nothing happens at once with anything else."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.db = database.db
        self.model = Model()
        self.server = Server(database, self.model)
        self.tickets: list[Ticket] = []
        self.tokens: set[int] = set()
        self.sent: list[tuple[UUID, Item]] = []
        self.stored: list[UUID] = []
        database.clean()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await one call of the product."""
        return self.database.run(work)

    @initialize(
        policies=st.tuples(*[draws.policies] * len(draws.QUEUES)),
        items=st.lists(draws.submissions(), min_size=3, max_size=8),
    )
    def begin(self, policies: Sequence[Policy], items: list[Item]) -> None:
        """Make the queues, and a few jobs."""
        for name, policy in zip(draws.QUEUES, policies, strict=True):
            self._create_queue(name, policy)
        self.submit(items, atomic=False)
        self._claim("able", draws.QUEUES, 3, start=True)

    # What applications do.

    @rule(items=st.lists(draws.submissions(), min_size=1, max_size=4), atomic=st.booleans())
    def submit(self, items: list[Item], atomic: bool) -> None:  # noqa: FBT001 - a drawn argument
        """Submit a batch."""
        self._submit([(uuid4(), self._dated(item)) for item in items], atomic=atomic)

    @rule(item=draws.submissions(), n=st.integers(2, 6))
    def submit_alike(self, item: Item, n: int) -> None:
        """Submit equal jobs at once, maybe with one key."""
        self.submit([item] * n, atomic=False)

    @precondition(lambda self: self.sent)
    @rule(picked=st.lists(picks, min_size=1, max_size=3), atomic=st.booleans())
    def submit_again(self, picked: list[int], atomic: bool) -> None:  # noqa: FBT001 - as above
        """Send a submission again whose answer was lost."""
        self._submit([_pick(self.sent, one) for one in picked], atomic=atomic)

    def _submit(self, items: list[tuple[UUID, Item]], *, atomic: bool) -> None:
        expected = self.model.submit(items, atomic=atomic)
        refused = [(i, word) for i, (word, _) in enumerate(expected) if word in REFUSED]
        self.sent += items
        self.stored += [job_id for job_id, _ in items if job_id in self.model.jobs]
        specs = [(job_id, draws.spec_of(item, self.database)) for job_id, item in items]
        storing = store_items(self.db, specs, atomic=atomic, horizon_s=HORIZON_S)
        wanted = refused[0] if atomic and refused else expected
        agree("answers to submissions", wanted, self._answers(storing))

    def _answers(self, storing: Coroutine[Any, Any, list[Stored]]) -> object:
        """Return what became of each item, or which one had all refused."""
        try:
            found = self.run(storing)
        except DRIVER_ERRORS as error:
            if fault := rejected_item(error):
                return fault
            raise
        return [(s.outcome, None if s.outcome in REFUSED else s.job_id) for s in found]

    def _dated(self, item: Item) -> Item:
        if item.not_before is None:
            return item
        return replace(item, not_before=self.model.now + item.not_before)

    # What workers do.

    @precondition(lambda self: self._pending())
    @rule(worker=draws.workers, names=draws.queue_orders, n=st.integers(1, 5))
    def claim(self, worker: str, names: tuple[str, ...], n: int) -> None:
        """Claim jobs and start them."""
        self._claim(worker, names, n, start=True)

    @precondition(lambda self: self._pending())
    @rule(worker=draws.workers, names=draws.queue_orders, n=st.integers(1, 5))
    def prefetch(self, worker: str, names: tuple[str, ...], n: int) -> None:
        """Claim jobs to start them later."""
        self._claim(worker, names, n, start=False)

    def _pending(self) -> bool:
        return any(job.status == PENDING for job in self.model.jobs.values())

    def _claim(self, worker: str, names: tuple[str, ...], n: int, *, start: bool) -> None:
        """Claim, as a worker that begins: one that knows no frontier and leaves nothing out."""
        number = self.database.workers[worker]
        claimer = Claimer(names, ProbePlan(draws.TYPES[worker]), LEASE_S)
        claimed = self.run(claimer.claim(self.db, number, n, running=start))
        waiting = {job.job_id: job for job in self.model.line(names)}
        agree("only what waits is claimed", True, {j.job_id for j in claimed} <= waiting.keys())
        taken = [waiting[job.job_id] for job in claimed]
        compare.claim_agrees(self.model, names, n, taken)
        for job, leased in zip(taken, claimed, strict=True):
            self._take(worker, job, leased, start=start)

    def _take(self, worker: str, job: Job, leased: LeasedJob, *, start: bool) -> None:
        able = (job.item.type or "default") in draws.TYPES[worker]
        by_queue = job.item.type is None and job.queue.name in draws.TYPES[worker]
        agree("a token never comes twice", False, leased.lease.token in self.tokens)
        agree("whether it runs", start and (able or by_queue), leased.running)
        number, token = self.database.workers[worker], leased.lease.token
        self.model.take(job, number, token, LEASE_S, start=leased.running)
        compare.leased_agrees(job, leased)
        self.tokens.add(token)
        self.tickets.append(Ticket(number, leased))

    @precondition(lambda self: self.model.line(draws.QUEUES))
    @rule(worker=draws.workers, endings=st.lists(draws.endings, min_size=1, max_size=4))
    def work(self, worker: str, endings: list[Ending]) -> None:
        """Claim, run and end, each job in its own way; the last goes on."""
        before = len(self.tickets)
        self._claim(worker, draws.QUEUES, len(endings) + 1, start=True)
        for ticket, ending in zip(self.tickets[before:], endings, strict=False):
            self._settle([ticket], [ending])

    @precondition(lambda self: self.model.line(draws.QUEUES))
    @rule(start=st.booleans())
    def die(self, start: bool) -> None:  # noqa: FBT001 - as above
        """Claim, and never be heard of again."""
        self._claim("able", draws.QUEUES, 4, start=start)
        self.pass_time(31.0)
        self.server.perform("reap")

    @precondition(lambda self: self.tickets)
    @rule(picked=st.lists(picks, min_size=1, max_size=3))
    def start(self, picked: list[int]) -> None:
        """Start what was claimed and not started, or was lost meanwhile."""
        tickets = self._of_one_worker(picked)
        worker, leases = tickets[0].worker, [t.job.lease for t in tickets]
        answers = self.run(
            lease_store.start_leases(self.db, worker=worker, leases=leases, lease_s=LEASE_S)
        )
        expected = {
            t.job.lease: self.model.start(worker, t.job.job_id, t.job.lease.token, LEASE_S)
            for t in tickets
        }
        agree("starts", expected, {a.lease: (a.state, a.fresh) for a in answers})
        for ticket in tickets:
            if expected[ticket.job.lease][0] == "started":
                self._replace(ticket, ticket.job.started())

    def _replace(self, ticket: Ticket, job: LeasedJob) -> None:
        self.tickets[self.tickets.index(ticket)] = ticket._replace(job=job)

    @precondition(lambda self: self.tickets)
    @rule(picked=st.lists(picks, min_size=1, max_size=3))
    def renew(self, picked: list[int]) -> None:
        """Renew leases, lost ones among them."""
        tickets = self._of_one_worker(picked)
        worker, leases = tickets[0].worker, [t.job.lease for t in tickets]
        answers = self.run(
            lease_store.renew_leases(self.db, worker=worker, leases=leases, lease_s=LEASE_S)
        )
        expected = {
            t.job.lease: self.model.renew(worker, t.job.job_id, t.job.lease.token, LEASE_S)
            for t in tickets
        }
        agree("renewals", expected, {a.lease: (a.state, a.cancel_requested) for a in answers})

    @precondition(lambda self: self._held())
    @rule(pick=picks, ending=draws.endings)
    def settle(self, pick: int, ending: Ending) -> None:
        """End an attempt that is held."""
        self._settle([_pick(self._held(), pick)], [ending])

    @precondition(lambda self: self._rivals())
    @rule(pick=picks, ending=draws.endings)
    def settle_late(self, pick: int, ending: Ending) -> None:
        """End an attempt that was lost, while its worker has the same job under a new lease."""
        self._settle([_pick(self._rivals(), pick)], [ending])

    @precondition(lambda self: self.tickets)
    @rule(picked=st.lists(st.tuples(picks, draws.endings), min_size=1, max_size=3))
    def settle_any(self, picked: list[tuple[int, Ending]]) -> None:
        """End attempts, whether they are held, lost or ended before."""
        tickets = self._of_one_worker([pick for pick, _ in picked])
        self._settle(tickets, [ending for _, ending in picked][: len(tickets)])

    def _settle(self, tickets: Sequence[Ticket], endings: Sequence[Ending]) -> None:
        worker = tickets[0].worker
        endings = [self._fitting(t, e) for t, e in zip(tickets, endings, strict=True)]
        settlements = [
            decide(
                Charge(t.job.lease, t.job.max_retries, t.job.counters, t.job.policy),
                ending.outcome,
                crash_limit=1,
                jitter=ending.jitter,
            )
            for t, ending in zip(tickets, endings, strict=True)
        ]
        answers = self.run(
            lease_store.settle_leases(self.db, worker=worker, settlements=settlements)
        )
        expected = {
            t.job.lease: self.model.settle(
                worker, t.job.job_id, t.job.lease.token, ending.reason, ending.delay_s
            )
            for t, ending in zip(tickets, endings, strict=True)
        }
        agree("settlements", expected, {a.lease: (a.state, a.fresh) for a in answers})

    def _fitting(self, ticket: Ticket, ending: Ending) -> Ending:
        """A worker hands back what it did not start, and says no more of it."""
        if ticket.job.running or ending.reason in {"NO_HANDLER", "COMPLETED"}:
            return ending
        return Ending("RELEASED")

    def _held(self) -> list[Ticket]:
        return [t for t in self.tickets if self._holds(t)]

    def _rivals(self) -> list[Ticket]:
        held = {(t.worker, t.job.job_id) for t in self._held()}
        stale = [t for t in self.tickets if not self._holds(t)]
        return [t for t in stale if (t.worker, t.job.job_id) in held]

    def _holds(self, ticket: Ticket) -> bool:
        job = self.model.jobs.get(ticket.job.job_id)
        return bool(job and job.hold and job.hold.token == ticket.job.lease.token)

    def _of_one_worker(self, picked: Sequence[int]) -> list[Ticket]:
        """Return leases of one worker: low numbers are held ones, high ones lost or ended."""
        known = sorted(self.tickets, key=self._holds)
        first = _pick(known, picked[0])
        mine = [t for t in known if t.worker == first.worker]
        return list(
            {t.job.lease: t for t in [first, *(_pick(mine, p) for p in picked[1:])]}.values()
        )

    # What operators do.

    @precondition(lambda self: self.stored)
    @rule(pick=picks, what=draws.operations)
    def operate(self, pick: int, what: str) -> None:
        """Cancel, retry or delete a job."""
        job_id = _pick(self.stored, pick)
        if what == "retry":
            answer = self.run(job_store.retry_job(self.db, job_id)).word
            agree("a retry", self.model.retry(job_id), answer)
        elif what == "delete":
            answer = self.run(job_store.delete_job(self.db, job_id))
            agree("a delete", self.model.delete(job_id), answer)
        else:
            running = what == "cancel running"
            answer = self.run(job_store.cancel_job(self.db, job_id, running=running)).word
            agree("a cancel", self.model.cancel(job_id, running=running), answer)

    @rule(name=draws.queue_names, what=draws.administration, policy=draws.policies)
    def administer(self, name: str, what: str, policy: Policy) -> None:
        """Change how a queue is served; a deleted one is made anew."""
        queue = self.model.queue(name)
        if what == "create" or queue is None:
            self._create_queue(name, policy)
        elif what == "update":
            self._update_queue(queue, policy)
        elif what in {"pause", "resume"}:
            queue.paused = what == "pause"
            paused = self.run(queue_store.pause_queue(self.db, name, paused=queue.paused))
            agree("a pause", queue.paused, paused and paused.paused)
        else:
            force = what == "delete with all jobs"
            answer = self.run(delete_queue(self.db, name, force=force))
            agree("the end of a queue", self.model.delete_queue(name, force=force), answer.state)

    def _create_queue(self, name: str, policy: Policy) -> None:
        made = self.run(queue_store.create_queue(self.db, name, draws.policy_of(policy)))
        agree("a new queue", self.model.create_queue(name, policy), made is not None)

    def _update_queue(self, queue: Queue, policy: Policy) -> None:
        (found,) = self.run(queue_store.list_queues(self.db, queue.name))
        queue.policy, told = policy, draws.policy_of(policy)
        update = queue_store.update_queue(self.db, queue.name, told, found.updated_at)
        updated = self.run(update)
        agree("an update", told, updated and updated.policy)

    # What time does.

    @rule(seconds=draws.passing)
    def pass_time(self, seconds: float) -> None:
        """Let time pass; what is due then happens when a server comes to it."""
        if self.model.now + seconds < LONGEST_S:
            self.model.now += seconds
            self.database.set_clock(self.model.now)

    @rule(duties=st.lists(draws.duties, min_size=1, max_size=4))
    def serve(self, duties: list[str]) -> None:
        """Let a server do some of what it does all the time."""
        for duty in duties:
            self.server.perform(duty)

    @rule(seconds=draws.passing)
    def go_on(self, seconds: float) -> None:
        """Let time pass while servers do what they do."""
        self.pass_time(seconds)
        self.serve(["reap", "reap_unstarted", "promote", "expire"])

    @precondition(lambda self: any(j.status == ASSIGNED for j in self.model.jobs.values()))
    @rule(times=st.integers(1, 11))
    def lose_unstarted(self, times: int) -> None:
        """Lose leases before the start, again and again, with workers that claim them each time."""
        for _ in range(times):
            self.pass_time(31.0)
            self.server.perform("reap")
            self._claim("able", draws.QUEUES, 3, start=False)

    # What must hold after each.

    @invariant()
    def the_database_is_what_the_model_says(self) -> None:
        """Compare every job, every new transition and every figure."""
        compare.jobs_agree(self.model, self.database.jobs(), self.database.worker_names)
        compare.events_agree(self.model, self.database.events())
        stats = self.run(queue_store.get_queue_stats(self.db, None, WINDOW_S))
        compare.figures_agree(self.model, stats)


def _pick(things: Sequence[T], pick: int) -> T:
    return things[-1 - pick % len(things)]
