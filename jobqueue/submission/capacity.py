"""How much a server holds of submissions that are not answered yet: more is refused (N-8).

While the database stands still callers keep coming, and each brings a payload. Those with keys may
wait long for an application's transaction that holds one, and must leave room to the others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from jobqueue.domain.columns import JobColumns
from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import MIB
from jobqueue.errors import ResourceExhausted

MOST_CALLS, MOST_BYTES = 10_000, 128 * MIB
"""Of all together: what is held is there two to five times, as messages, values and buffers."""

_EACH = 400
"""Bytes of a job beside these: its message and values, and names, of which each may have some."""

SHARE = 0.75
"""Of it that calls with keys may have, and those without."""


class Capacity:
    """Counts what calls hold, from their coming to their answer: single ones and batches alike.

    What a flush has taken of callers who gave up since then is not counted any more.
    """

    def __init__(self, most_calls: float = MOST_CALLS, most_bytes: float = MOST_BYTES) -> None:
        self._most_calls, self._most_bytes = most_calls, most_bytes
        self._calls: Counter[bool] = Counter()
        self._bytes: Counter[bool] = Counter()

    @contextmanager
    def held(self, size: int, *, keyed: bool) -> Iterator[None]:
        """Hold a call of ``size`` bytes in this block. Raises ResourceExhausted if none fits in."""
        calls = _fits(self._calls, 1, self._most_calls, keyed=keyed)
        if not calls or not _fits(self._bytes, size, self._most_bytes, keyed=keyed):
            raise ResourceExhausted("too many calls wait; try again later", reason="OVERLOADED")
        self._calls[keyed] += 1
        self._bytes[keyed] += size
        try:
            yield
        finally:
            self._calls[keyed] -= 1
            self._bytes[keyed] -= size


def _fits(held: Counter[bool], more: int, most: float, *, keyed: bool) -> bool:
    own = held[keyed] + more
    return own <= SHARE * most and own + held[not keyed] <= most


def size_of(spec: JobSpec) -> int:
    """Return about how many bytes a submission takes."""
    return _EACH + len(spec.payload) + _texts(spec.labels, spec.trace_context)


def size_of_all(columns: JobColumns) -> int:
    """Return about how many bytes a batch takes."""
    texts = _texts(*columns.labels, *columns.trace_context)
    return columns.size * _EACH + sum(map(len, columns.payload)) + texts


def _texts(*each: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for pairs in each for key, value in pairs.items())
