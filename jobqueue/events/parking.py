"""Events that Kafka refused for good: shown, and sent again when an operator asks (R-6.3)."""

from collections.abc import Sequence

from jobqueue.domain.event import ParkedEvent
from jobqueue.errors import NotFound
from jobqueue.store.events import list_parked, resend_parked
from jobqueue.store.faults import retrying
from jobqueue.store.pool import Pool


class Parking:
    """What operators do with parked events."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(self, after: int, size: int) -> list[ParkedEvent]:
        """Return parked events after an event id, by id."""
        return await retrying(lambda: list_parked(self._pool, after=after, limit=size))

    async def resend(self, event_ids: Sequence[int] | None) -> int:
        """Let the relay send these again, or all (None); return how many.

        Raises NotFound when ids were given and none of them is parked.
        """
        count = await retrying(lambda: resend_parked(self._pool, event_ids))
        if event_ids and not count:
            raise NotFound("event", ", ".join(map(str, event_ids)))
        return count
