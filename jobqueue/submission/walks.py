"""Checks of every job: walks in pages, each page one short snapshot.

A claim about one job needs one snapshot of that job, not one of all: so ten million jobs are
proven without holding a snapshot for longer than a page takes.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from jobqueue.domain.checkup import EXAMPLES, Check, CheckProgress, Finding, Verdict, shown
from jobqueue.store import doctor as store
from jobqueue.store.pool import Connection, Pool

T = TypeVar("T")

PAGE_JOBS = 10_000
PAGE_KEYS = 20_000
NEWEST_JOBS = 50_000
"""How many jobs a quick check-up walks."""

PAGE_TIMEOUT_S = 60.0
_LONGEST_REST_S = 2.0

_RECORD = (Check.PLACES, Check.SEQUENCES, Check.TRANSITIONS, Check.STATUS)
_FAULTS = {
    Check.PLACES: "are not in exactly one place, or not in their queue",
    Check.SEQUENCES: "have events that are not numbered 1, 2, 3 …",
    Check.TRANSITIONS: "have transitions that are illegal or no chain",
    Check.STATUS: "are not where their last event says",
    Check.KEYS: "and their idempotency keys do not name each other",
}
_ADVICE = (
    "A fault of this kind comes from rows changed by hand, or is a bug: keep the output of "
    "jq-ctl job logs for the examples and report it."
)


class Patient:
    """Runs one page at a time, then rests as long as it took: at most half of one core."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def run(self, look: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what ``look`` finds in one snapshot. Raises our errors."""
        begun = time.monotonic()
        async with store.snapshot(self._pool, PAGE_TIMEOUT_S) as connection:
            answer = await look(connection)
        await asyncio.sleep(min(time.monotonic() - begun, _LONGEST_REST_S))
        return answer


@dataclass(slots=True)
class _Tally:
    """What a check has found so far."""

    total: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, total: int, examples: list[str]) -> None:
        self.total += total
        self.examples += examples[: EXAMPLES - len(self.examples)]


async def walk_jobs(
    patient: Patient, wanted: frozenset[Check], *, quick: bool
) -> AsyncIterator[CheckProgress | Finding]:
    """Walk all jobs, or the newest; yield progress after each page, at the end the findings."""
    checks = [check for check in _RECORD if check in wanted]
    if not checks:
        return
    newest = NEWEST_JOBS if quick else None
    extent = await patient.run(lambda c: store.find_extent(c, newest))
    tallies = {check: _Tally() for check in checks}
    after, seen = extent.after, 0
    while after < store.LAST:
        page = await patient.run(_page_after(after))
        await patient.run(_look_at(after, page.upto, tallies))
        after, seen = page.upto, seen + page.jobs
        yield CheckProgress(checks[0], seen, max(extent.about, seen))
    scope = f"the newest {seen} jobs" if extent.after > store.FIRST else f"{seen} jobs"
    for check in checks:
        yield _judge(check, tallies[check], scope)


def _page_after(after: int) -> Callable[[Connection], Awaitable[store.Page]]:
    return lambda c: store.find_job_page(c, after, PAGE_JOBS)


def _look_at(
    after: int, upto: int, tallies: dict[Check, _Tally]
) -> Callable[[Connection], Awaitable[None]]:
    """Return a look at one page for every check that is wanted."""

    async def look(db: Connection) -> None:
        if Check.PLACES in tallies:
            found, total = await store.find_misplaced_jobs(db, after, upto, EXAMPLES)
            tallies[Check.PLACES].add(total, [_place(job) for job in found])
        if tallies.keys() - {Check.PLACES}:
            broken = await store.find_broken_records(db, after, upto, EXAMPLES)
            for check in tallies.keys() & {Check(name) for name in broken}:
                tallies[check].add(broken[check].total, [str(j) for j in broken[check].job_ids])

    return look


def _place(job: store.Misplaced) -> str:
    if job.job_id is None:
        return f"row {job.job} of {job.places} without a job"
    return f"{job.job_id} in {job.places or 'no table'}"


async def walk_keys(patient: Patient) -> AsyncIterator[CheckProgress | Finding]:
    """Walk all idempotency keys; yield progress after each page, at the end the finding."""
    tally, seen = _Tally(), 0
    after: tuple[str, str] | None = ("", "")
    while after is not None:
        page = await patient.run(_keys_after(after))
        tally.add(page.orphans.total, [str(job_id) for job_id in page.orphans.job_ids])
        after, seen = page.end, seen + page.keys
        yield CheckProgress(Check.KEYS, seen, seen)
    job = store.FIRST
    while job < store.LAST:
        jobs = await patient.run(_page_after(job))
        keyless = await patient.run(_keyless(job, jobs.upto))
        tally.add(keyless.total, [str(job_id) for job_id in keyless.job_ids])
        job = jobs.upto
    yield _judge(Check.KEYS, tally, f"{seen} keys")


def _keys_after(after: tuple[str, str]) -> Callable[[Connection], Awaitable[store.KeyPage]]:
    return lambda c: store.find_orphan_keys(c, after, PAGE_KEYS, EXAMPLES)


def _keyless(after: int, upto: int) -> Callable[[Connection], Awaitable[store.Broken]]:
    return lambda c: store.find_keyless_jobs(c, after, upto, EXAMPLES)


def _judge(check: Check, tally: _Tally, scope: str) -> Finding:
    if not tally.total:
        return Finding(check, Verdict.OK, f"looked at {scope}")
    found = f"{tally.total} jobs {_FAULTS[check]}, of {scope}"
    return Finding(check, Verdict.FAIL, found, shown(tally.examples), _ADVICE)
