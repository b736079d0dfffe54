"""Submissions side by side: a batch as one list per field, which is how it is checked and stored.

What all items say alike is there once, and what none says is not there at all; so a batch of a
thousand costs little more than its payloads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar

from jobqueue.domain.job import JobSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobColumns:
    """``size`` submissions. Fields mean what they mean in ``JobSpec``.

    A column has an element for each item, or one that counts for all, or none where nobody said
    anything. Payloads always have one for each.
    """

    size: int
    queue: Sequence[str]
    payload: Sequence[bytes]
    type: Sequence[str | None] = ()
    priority: Sequence[int] = ()
    max_retries: Sequence[int | None] = ()
    ttl_s: Sequence[float | None] = ()
    delay_s: Sequence[float | None] = ()
    not_before: Sequence[datetime | None] = ()
    timeout_s: Sequence[float | None] = ()
    idempotency_key: Sequence[str | None] = ()
    tenant: Sequence[str] = ()
    labels: Sequence[Mapping[str, str]] = ()
    trace_context: Sequence[Mapping[str, str]] = ()

    def item(self, index: int) -> JobSpec:
        """Return one submission by itself."""
        said = ((name, getattr(self, name)) for name in _NAMES)
        return JobSpec(**{name: nth(column, index) for name, column in said if column})

    def items(self) -> Iterator[JobSpec]:
        """Yield the submissions one by one."""
        return map(self.item, range(self.size))


_UNSAID: Mapping[str, Any] = {"priority": 0, "tenant": "", "labels": {}, "trace_context": {}}
"""What a field is that nobody said, where that is not None."""

WHOLE = "payload"
"""The column that is never folded."""

NEVER_UNSAID = ("queue", WHOLE)
"""What every item must say."""

_NAMES = tuple(JobSpec.__dataclass_fields__)


def columns_of(specs: Sequence[JobSpec]) -> JobColumns:
    """Return a batch as columns."""
    columns = {name: list(map(attrgetter(name), specs)) for name in _NAMES}
    columns["not_before"] = list(map(_instant, columns["not_before"]))
    folded = {
        name: column if name == WHOLE else fold(column, name) for name, column in columns.items()
    }
    return JobColumns(len(specs), **folded)


def fold(column: Sequence[T], name: str) -> Sequence[T]:
    """Return the column of field ``name`` without what need not be repeated."""
    if not column or column.count(column[0]) < len(column):
        return column
    unsaid = name not in NEVER_UNSAID and column[0] == _UNSAID.get(name)
    return () if unsaid else column[:1]


def _instant(at: datetime | None) -> datetime | None:
    """Two times of one zone may be equal as its clock shows them, and an hour apart."""
    try:
        return at if at is None or at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:  # beyond the calendar of UTC; the validator says so
        return at


def nth(column: Sequence[T], index: int) -> T:
    """Return what a column that is not empty says of one item."""
    return column[0] if len(column) == 1 else column[index]
