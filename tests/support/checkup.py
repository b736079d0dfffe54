"""Check-ups in tests: a database with a past, and what doctor says of it."""

from jobqueue.domain.checkup import Check, Finding, Verdict
from jobqueue.domain.outcome import Refused
from jobqueue.store.pool import Connection, Pool
from jobqueue.submission.doctor import Doctor
from tests.support.store import FAILURE, add_queue, claim, settle, spec, store, submit

TESTED_WITHOUT_FSYNC = {Check.SETTINGS}
"""The clusters of the tests are not durable, and doctor says so."""


async def live(db: Connection) -> None:
    """Make a job in every state, each with its story: 8 jobs, one with a key."""
    await add_queue(db)
    await submit(db, 6)
    jobs = await claim(db, 4)
    await settle(db, jobs[0])
    await settle(db, jobs[1], Refused("no"))
    await settle(db, jobs[2], FAILURE)
    await claim(db, 1, running=False)
    await submit(db, delay_s=3600.0)
    await store(db, [spec(idempotency_key="k")])


async def checked(
    pool: Pool, *names: str, quick: bool = False, event_retention_s: float | None = None
) -> dict[str, Finding]:
    """Run a check-up; return its findings by check."""
    doctor = Doctor(pool, event_retention_s=event_retention_s)
    steps = [step async for step in doctor.run(names, quick=quick)]
    return {step.check: step for step in steps if isinstance(step, Finding)}


async def bad(pool: Pool) -> dict[str, Verdict]:
    """Return the verdicts that are not ok, of all checks."""
    found = await checked(pool)
    assert list(found) == list(Check)
    return {
        check: finding.verdict
        for check, finding in found.items()
        if finding.verdict is not Verdict.OK and check not in TESTED_WITHOUT_FSYNC
    }
