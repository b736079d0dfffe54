"""Awaits what a worker hears by a callback."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Outcome
from jobqueue.lease.interface import Answered


class Settles(Protocol):
    """Whoever settles leases."""

    def settle(self, job: LeasedJob, outcome: Outcome, answered: Answered) -> None: ...


async def settled(leases: Settles, job: LeasedJob, outcome: Outcome) -> bool:
    """Return whether the lease was held to its end. Raises what the database says."""
    answer, answered = answer_to_come()
    leases.settle(job, outcome, answered)
    return await answer


def answer_to_come() -> tuple[asyncio.Future[bool], Answered]:
    """Return a future and what sets it."""
    answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def answered(_jobs: Sequence[LeasedJob], held: bool, error: Exception | None) -> None:  # noqa: FBT001 - as Answered
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(held)

    return answer, answered
