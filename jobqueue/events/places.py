"""Places in the stream as text: what a watcher hands back to go on from there."""

import base64
import binascii
import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from jobqueue.errors import FieldViolation, InvalidArgument
from jobqueue.store.events import Step, TailStart

_SNAPSHOT = re.compile(r"([0-9]{1,19}):([0-9]{1,19}):([0-9]{1,19}(?:,[0-9]{1,19})*)?")
_HIGHEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Place:
    """In a step, after an event id: all before was told, all after is still to come."""

    step: Step
    after: int

    def within(self, present: TailStart) -> "Place":
        """Return the same place in a step that ends with the newest id there is, or before."""
        last_eid = min(self.step.end.last_eid, present.last_eid)
        return replace(self, step=replace(self.step, end=replace(self.step.end, last_eid=last_eid)))


def write_place(place: Place) -> str:
    """Return a place as text without meaning to others."""
    step = place.step
    raw = json.dumps([_said(step.start), _said(step.end), step.again, place.after])
    return base64.urlsafe_b64encode(raw.encode()).decode()


def read_place(text: str) -> Place:
    """Return the place that was written so. Raises InvalidArgument for anything else."""
    try:
        start, end, again, after = json.loads(base64.urlsafe_b64decode(text.encode("ascii")))
        step = Step(_heard(start), _heard(end), None if again is None else _number(again))
        return Place(step, _number(after))
    except (binascii.Error, OverflowError, RecursionError, TypeError, ValueError) as error:
        fault = FieldViolation("place", "is not a place that a tail told")
        raise InvalidArgument([fault]) from error


def _said(place: TailStart) -> list[object]:
    return [place.snapshot, place.since.isoformat(), place.last_eid, place.epoch]


def _heard(fields: list[object]) -> TailStart:
    snapshot, since, last_eid, epoch = fields
    if not (isinstance(snapshot, str) and isinstance(since, str) and isinstance(epoch, str)):
        raise TypeError(fields)
    at = datetime.fromisoformat(since)
    if at.tzinfo is None:
        raise ValueError(since)
    at = at.astimezone(UTC)  # near its ends the calendar of a far zone has times that UTC has not
    return TailStart(_checked(snapshot), at, _number(last_eid), epoch, standby=False)


def _checked(snapshot: str) -> str:
    """Return what PostgreSQL takes for a snapshot: xmin ≤ those in progress, rising, < xmax."""
    found = _SNAPSHOT.fullmatch(snapshot)
    if found is None:
        raise ValueError(snapshot)
    xmin, xmax = int(found[1]), int(found[2])
    running = [int(xid) for xid in found[3].split(",")] if found[3] else []
    rising = all(a < b for a, b in pairwise(running))
    if not (0 < xmin <= xmax <= _HIGHEST and rising and all(xmin <= x < xmax for x in running)):
        raise ValueError(snapshot)
    return snapshot


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _HIGHEST:
        raise ValueError(value)
    return value
