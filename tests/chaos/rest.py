"""When nothing is done to a system any more: it comes to rest, and all of it still works (I16)."""

import contextlib
import time
from collections.abc import Set as AbstractSet

from jobqueue.store.faults import DRIVER_ERRORS
from jobqueue.store.pool import Connection
from tests.chaos.load import Load, count_live
from tests.chaos.system import System
from tests.support.waiting import eventually

_QUIET_S = 120.0
_WORKS_WITHIN_S = 60.0
"""A program that was struck last may still be on its way up."""

_JOBS = 40
"""At each server in a round: at two they are more than the workers have slots."""

_BUSY = """
    SELECT DISTINCT worker_id FROM jobqueue.job_event_log
    WHERE eid > $1 AND to_status = 'ASSIGNED'
"""


async def quiet(system: System) -> bool:
    """Wait until every job has ended, and tell whether that came: the history says which hang."""

    async def over() -> bool:
        with contextlib.suppress(*DRIVER_ERRORS):
            async with system.looking() as db:
                return await count_live(db) == 0
        return False

    with contextlib.suppress(AssertionError):
        return await eventually(over, within_s=_QUIET_S, what="the end of all jobs")
    return False


async def is_killed_by_a_job(system: System, load: Load) -> bool:
    """Give a job that kills whoever runs it, and wait until it has ended; tell whether that came.

    Nothing else is done to the workers now, so it must be stopped by the crash limit.
    """

    async def taken() -> bool:
        return any([await load.give(address, 1, "killer") for address in system.addresses])

    with contextlib.suppress(AssertionError):
        await eventually(taken, within_s=_WORKS_WITHIN_S, what="a server that takes a job")
    return await quiet(system)


async def idlers(system: System, load: Load, within_s: float = _WORKS_WITHIN_S) -> list[str]:
    """Give work until every server has taken some in and every worker has claimed some.

    Returns the programs that did not, by the names of their slots: they hang, though others did
    their work for them.
    """
    idle, deadline = set(system.slots), time.monotonic() + within_s
    async with system.looking() as db:
        begun: int = await db.fetchval("SELECT coalesce(max(eid), 0) FROM jobqueue.job_events")
        while idle and time.monotonic() < deadline:
            for i, address in enumerate(system.addresses):
                if await load.give(address, _JOBS):
                    idle.discard(f"server-{i}")
            await quiet(system)
            busy = await _busy_since(db, begun)
            idle -= {name for name in idle if system.worker_name(name) in busy}
    return sorted(idle)


async def _busy_since(db: Connection, eid: int) -> AbstractSet[str]:
    return {row["worker_id"] for row in await db.fetch(_BUSY, eid)}
