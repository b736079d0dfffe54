"""Proves from outside that the record is whole (``jq-ctl doctor``). Changes nothing.

It asks the tables, never the code that wrote them. Every statement is bounded, no snapshot is
held for longer than one of them, and a check that cannot be run has failed: not proven is not ok.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing
from functools import partial

from jobqueue.domain.checkup import Check, CheckProgress, Finding, Verdict
from jobqueue.errors import (
    Aborted,
    FieldViolation,
    InvalidArgument,
    JobQueueError,
    Unavailable,
)
from jobqueue.store import doctor as store
from jobqueue.store.faults import DRIVER_ERRORS, translate
from jobqueue.store.pool import Pool
from jobqueue.submission.checks import LOOKS, Look, check_partitions
from jobqueue.submission.walks import Patient, walk_jobs, walk_keys

LOOK_TIMEOUT_S = 60.0
_DEAR = frozenset({Check.FIGURES, Check.KEYS})
"""They read tables whole, so a quick check-up leaves them out."""

_WALKS = frozenset({Check.PLACES, Check.SEQUENCES, Check.TRANSITIONS, Check.STATUS})

_NAMES = frozenset(Check)

Step = CheckProgress | Finding


def read_checks(names: Collection[str]) -> frozenset[Check]:
    """Return the named checks, all when none is named. Raises InvalidArgument."""
    unknown = next((name for name in names if name not in _NAMES), None)
    if unknown is not None:
        fault = f"there is no check {unknown[:64]!r}; there are {', '.join(Check)}"
        raise InvalidArgument([FieldViolation("checks", fault)])
    return frozenset(Check(name) for name in names) or frozenset(Check)


class Doctor:
    """Runs check-ups on one database, one at a time: they are not to crowd out the calls."""

    def __init__(self, pool: Pool, *, event_retention_s: float | None = None) -> None:
        """``event_retention_s``: for how long the servers keep events; None: nobody knows."""
        self._pool = pool
        old = partial(check_partitions, retention_s=event_retention_s)
        self._looks: dict[Check, Look] = LOOKS | {Check.PARTITIONS: old}
        self._patient = Patient(pool)
        self._busy = False

    async def run(
        self, names: Collection[str] = (), *, quick: bool = False
    ) -> AsyncGenerator[Step, None]:
        """Yield one finding for each named check (none named: all), and progress between them.

        Quick: tables that only grow are not read whole, and only the newest jobs are walked.
        Raises InvalidArgument for an unknown name, Aborted when a check-up runs already,
        Unavailable when the database cannot be reached.
        """
        wanted = read_checks(names)
        if self._busy:
            raise Aborted("this server runs a check-up already; try again later", reason="BUSY")
        self._busy = True
        try:
            async with aclosing(self._steps(wanted, quick=quick)) as steps:
                async for step in steps:
                    yield step
        finally:
            self._busy = False

    async def _steps(self, wanted: frozenset[Check], *, quick: bool) -> AsyncGenerator[Step, None]:
        skipped = wanted & _DEAR if quick else frozenset()
        for check in (check for check in self._looks if check in wanted):
            yield _skipped(check) if check in skipped else await self._look(check)
        walked = wanted & _WALKS
        async for step in _proven(walk_jobs(self._patient, walked, quick=quick), walked):
            yield step
        if Check.KEYS in skipped:
            yield _skipped(Check.KEYS)
        elif Check.KEYS in wanted:
            async for step in _proven(walk_keys(self._patient), {Check.KEYS}):
                yield step

    async def _look(self, check: Check) -> Finding:
        try:
            async with store.snapshot(self._pool, LOOK_TIMEOUT_S) as connection:
                return await self._looks[check](connection)
        except (*DRIVER_ERRORS, JobQueueError) as error:
            return _unproven(check, error)


async def _proven(walk: AsyncIterator[Step], checks: Collection[Check]) -> AsyncIterator[Step]:
    """Pass a walk on; when it breaks off, its checks have failed."""
    try:
        async for step in walk:
            yield step
    except DRIVER_ERRORS as error:
        for check in sorted(checks, key=list(Check).index):
            yield _unproven(check, error)


def _skipped(check: Check) -> Finding:
    return Finding(check, Verdict.SKIPPED, "left out: it reads whole tables")


def _unproven(check: Check, error: BaseException) -> Finding:
    """Return a failed check. Raises Unavailable: without a database there is no check-up."""
    cause: JobQueueError = translate(error)
    if isinstance(cause, Unavailable):
        raise cause from error
    advice = "Run it again when the database has less to do, or ask for this check alone."
    return Finding(check, Verdict.FAIL, f"could not be proven: {cause.message}", (), advice)
