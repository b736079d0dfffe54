"""What operators do about Kafka: see and resend what it refused, end the stream (R-6.3)."""

from collections.abc import Sequence

from jobqueue.domain.event import ParkedEvent
from jobqueue.errors import FailedPrecondition, NotFound
from jobqueue.events.relay import CURSOR
from jobqueue.store.events import (
    count_backlog,
    list_parked,
    lock_cursor,
    remove_cursor,
    resend_parked,
)
from jobqueue.store.faults import retrying, translated
from jobqueue.store.pool import Pool, transaction

_NAMED = 10
"""So many events that are not parked are named in an error."""


class Parking:
    """What is kept for Kafka, for operators."""

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
            named = ", ".join(map(str, event_ids[:_NAMED]))
            raise NotFound("event", named + (", …" if len(event_ids) > _NAMED else ""))
        return count

    async def disconnect(self, *, force: bool) -> int:
        """Keep nothing for Kafka any more; return how many events never reach it.

        Raises FailedPrecondition while a server publishes, or when events wait or are parked and
        ``force`` is not given; NotFound when nothing is kept.
        """
        with translated():
            async with self._pool.acquire() as connection, transaction(connection):
                found = await lock_cursor(connection, CURSOR)
                if found is None:
                    raise NotFound("cursor", CURSOR)
                if found.name is not None:
                    raise FailedPrecondition(
                        f"{found.name} publishes: take kafka.brokers from the settings of every"
                        " server and restart them first",
                        reason="RELAY_RUNNING",
                    )
                backlog = await count_backlog(connection, CURSOR)
                dropped = backlog.events + backlog.parked
                if dropped and not force:
                    raise FailedPrecondition(
                        f"{dropped} events would never reach Kafka; force it to drop them",
                        reason="EVENTS_WAIT",
                    )
                await remove_cursor(connection, CURSOR)
        return dropped
