"""What ``jq-ctl top`` shows: one look at the system, and what follows from it and the one before.

Pure: time comes with the answers. Loaded by the command alone, because it needs the client.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from jobqueue.cli.ctl.text import Row, cell, moment, rough
from jobqueue.client import SystemStatus
from jobqueue.domain.queue import QueueStats
from jobqueue.domain.state import JobStatus
from jobqueue.domain.worker import Worker, WorkerStatus
from jobqueue.errors import NotFound

_LIVE = tuple(status for status in JobStatus if not status.terminal)


@dataclass(frozen=True, slots=True)
class Rates:
    """Jobs a second of one queue between two looks.

    ``entered`` counts submissions, and dead jobs that an operator gave a new life.
    """

    entered: float
    done: float
    dead_lettered: float


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, the most wanted first, and rows of them.

    ``ends_in_text`` says that of the last column a part is worth showing.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    ends_in_text: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """One look. ``rates`` by queue; None where there is nothing to compare with."""

    at: datetime
    system: SystemStatus
    rates: Mapping[str, Rates | None]

    def heading(self) -> Sequence[str]:
        """Return the lines above the tables."""
        system = self.system
        began = moment(system.started_at)
        lines = [
            f"{moment(self.at)}  jq-server {cell(system.version)}, started {began}",
            self._work(),
            self._hands(),
        ]
        if system.unhandled:
            waiting = (f"{cell(u.queue)} {cell(u.type)} {u.count}" for u in system.unhandled)
            lines.append(f"no worker that met them had a handler for: {', '.join(waiting)}")
        return lines

    def components(self) -> Table:
        """Return the services, and whatever else is not well or has something to say."""
        told = [each for each in self.system.components if each.detail or each.state != "ok"]
        rows = [(cell(each.name), cell(each.state), cell(each.detail)) for each in told]
        return Table(("COMPONENT", "STATE", "DETAIL"), rows, ends_in_text=True)

    def queues(self) -> Table:
        """Return depth and rates, the deepest queue first."""
        columns = (
            *("QUEUE", *_LIVE, "IN/S", "DONE/S", "DEAD/S", "OLDEST", "UNHANDLED", "ERRORS"),
            *("PAUSED", JobStatus.DONE, JobStatus.DEAD_LETTERED),
        )
        return Table(columns, [self._queue_row(each) for each in self.system.queues])

    def workers(self) -> Table:
        """Return workers and their slots, the busiest first."""
        columns = ("WORKER ID", "STATUS", "SLOTS", "BEAT", "QUEUES", "MODE", "VERSION")
        return Table(columns, [self._worker_row(each) for each in self.system.workers])

    def _work(self) -> str:
        queues = self.system.queues
        told = f"jobs: {sum(map(unfinished_jobs, queues)):,} unfinished in {len(queues)} queues"
        known = [each for each in self.rates.values() if each is not None]
        if known:
            entered, done = sum(r.entered for r in known), sum(r.done for r in known)
            told += f", in {_rate(entered)}/s, done {_rate(done)}/s"
        return told

    def _hands(self) -> str:
        there = [w for w in self.system.workers if w.status is not WorkerStatus.OFFLINE]
        busy, slots = sum(w.running for w in there), sum(w.facts.concurrency for w in there)
        return f"workers: {len(there)}, {busy} of {slots} slots in use"

    def _queue_row(self, each: QueueStats) -> Row:
        errors = "-" if each.error_rate is None else f"{each.error_rate:.1%}"
        return (
            cell(each.queue),
            *(str(each.depth[status]) for status in _LIVE),
            *_rate_cells(self.rates[each.queue]),
            *(rough(each.oldest_runnable_s), str(each.unhandled), errors, cell(each.paused)),
            *(str(each.depth[JobStatus.DONE]), str(each.depth[JobStatus.DEAD_LETTERED])),
        )

    def _worker_row(self, each: Worker) -> Row:
        facts = each.facts
        return (
            *(cell(facts.worker_id), cell(each.status), f"{each.running}/{facts.concurrency}"),
            *(rough(self._since(each.last_beat_at)), cell(facts.queues), cell(facts.mode)),
            cell(facts.version),
        )

    def _since(self, instant: datetime) -> float | None:
        """Return the age of an instant of the database's clock, by the database's clock."""
        now = max((each.as_of for each in self.system.queues), default=None)
        return max((now - instant).total_seconds(), 0.0) if now else None


class Series:
    """Makes frames of looks that follow each other."""

    def __init__(self, queues: Collection[str] = ()) -> None:
        """``queues`` names those to show, and their workers; empty: all."""
        self._wanted = frozenset(queues)
        self._before: dict[str, QueueStats] = {}

    def frame(self, system: SystemStatus, at: datetime) -> Frame:
        """Return the next frame. Raises NotFound when the first look lacks a wanted queue."""
        self._check(system)
        system = self._sorted(self._narrowed(system))
        found = {each.queue: rates(self._before.get(each.queue), each) for each in system.queues}
        # A server whose database is away tells of no queue: the look before that stays.
        self._before |= {each.queue: each for each in system.queues}
        return Frame(at, system, found)

    def _check(self, system: SystemStatus) -> None:
        if self._before or not system.queues:
            return
        for name in sorted(self._wanted.difference(each.queue for each in system.queues)):
            raise NotFound("queue", name)

    def _narrowed(self, system: SystemStatus) -> SystemStatus:
        if not self._wanted:
            return system
        return replace(
            system,
            queues=tuple(q for q in system.queues if q.queue in self._wanted),
            workers=tuple(w for w in system.workers if self._wanted.intersection(w.facts.queues)),
            unhandled=tuple(u for u in system.unhandled if u.queue in self._wanted),
        )

    def _sorted(self, system: SystemStatus) -> SystemStatus:
        return replace(
            system,
            queues=tuple(sorted(system.queues, key=lambda q: (-unfinished_jobs(q), q.queue))),
            workers=tuple(sorted(system.workers, key=lambda w: (-w.running, w.facts.worker_id))),
        )


def unfinished_jobs(stats: QueueStats) -> int:
    """Return how many jobs of a queue have an end before them."""
    return sum(stats.depth[status] for status in _LIVE)


def rates(before: QueueStats | None, now: QueueStats) -> Rates | None:
    """Return the rates between two looks at a queue, by the database's clock.

    None when there was no look before, when it is the same one, or when the queue was deleted and
    made again in between, which sets its totals back.
    """
    if before is None:
        return None
    seconds = (now.as_of - before.as_of).total_seconds()
    done, dead = now.done_total - before.done_total, now.dead_total - before.dead_total
    entered = unfinished_jobs(now) - unfinished_jobs(before) + done + dead
    if seconds <= 0 or min(entered, done, dead) < 0:
        return None
    return Rates(entered / seconds, done / seconds, dead / seconds)


def _rate_cells(found: Rates | None) -> Row:
    if found is None:
        return ("-", "-", "-")
    return (_rate(found.entered), _rate(found.done), _rate(found.dead_lettered))


def _rate(per_second: float) -> str:
    return f"{per_second:,.1f}"
