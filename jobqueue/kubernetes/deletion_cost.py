"""Keeps `controller.kubernetes.io/pod-deletion-cost` in step with what runs here (R-10.2).

A pod that is not ready goes before any that is, whatever it costs. So nothing is written once the
worker ends, and what an earlier container left behind is put right when the next one starts.
"""

import random
from collections.abc import Callable

from jobqueue.domain.load import Load, deletion_cost
from jobqueue.errors import Unavailable
from jobqueue.kubernetes.api import Answer, PodApi
from jobqueue.kubernetes.pace import Pace
from jobqueue.kubernetes.signals import (
    COST_UNWRITTEN,
    COST_WRITTEN,
    CostUnwritten,
    CostWritten,
)
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.runtime.service import Service

LOOK_S = 1.0
"""A job that is shorter may go unseen, and needs no protection."""

_HINTS = {
    401: "the token of the service account is not valid",
    403: "the service account needs a Role with the verb patch on pods (docs/scale-in.md)",
    404: "POD_NAME and POD_NAMESPACE name no pod",
    429: "the API server is busy",
}


class DeletionCost(Service):
    """Looks once a second at ``load`` and writes when it is worth it, until ``ending`` is true.

    Failures are signalled and tried again later; they are no failures of the loop.
    """

    def __init__(
        self,
        api: PodApi,
        load: Callable[[], Load],
        ending: Callable[[], bool],
        *,
        interval_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__("pod-deletion-cost", interval_s=LOOK_S, clock=clock)
        self._api = api
        self._load = load
        self._ending = ending
        self._pace = Pace(interval_s)

    async def turn(self) -> float | None:
        """Write the cost if that is due."""
        now = self._clock.monotonic()
        cost = self._pace.due(now, deletion_cost(self._load(), now))
        if cost is not None and not self._ending():
            await self._write(cost)
        return None

    async def _write(self, cost: int) -> None:
        try:
            answer = await self._api.set_deletion_cost(cost)
        except Unavailable as error:
            self._put_off(error.message)
            return
        if cause := refusal(answer):
            self._put_off(cause, answer.retry_after_s)
            return
        COST_WRITTEN.emit(CostWritten(cost, self._pace.known))
        self._pace.wrote(self._clock.monotonic(), cost)

    def _put_off(self, cause: str, at_least_s: float = 0.0) -> None:
        chance = random.random()  # noqa: S311 - no secret
        self._pace.failed(self._clock.monotonic(), at_least_s=at_least_s, chance=chance)
        COST_UNWRITTEN.emit(CostUnwritten(cause))


def refusal(answer: Answer) -> str:
    """Return why an answer is a refusal, for people; empty when it is none."""
    if answer.status // 100 == 2:  # noqa: PLR2004 - as in HTTP
        return ""
    parts = [f"HTTP {answer.status}", _HINTS.get(answer.status, ""), answer.said]
    return ": ".join(filter(None, parts))
