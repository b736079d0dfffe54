"""Durations and instants as protobuf has them, checked before they are believed.

A message can hold what its type forbids: nanoseconds beyond a second, mixed signs, the year
20000. Such a value is a fault of its field, never an exception on the way to the database.
"""

import math
from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobqueue.errors import FieldViolation

_NANOS = 1_000_000_000
_MAX_DURATION_S = 315_576_000_000  # 10,000 years: the protobuf definition
_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_seconds(message: Duration, field: str, faults: list[FieldViolation]) -> float | None:
    """Return a duration in seconds; None and a fault when it is no duration at all.

    Whether its size makes sense is for the validator of the domain to say.
    """
    seconds, nanos = message.seconds, message.nanos
    if abs(seconds) > _MAX_DURATION_S or abs(nanos) >= _NANOS or seconds * nanos < 0:
        faults.append(FieldViolation(field, "is not a valid duration"))
        return None
    return seconds + nanos / _NANOS


def read_instant(message: Timestamp, field: str, faults: list[FieldViolation]) -> datetime | None:
    """Return an instant in UTC, cut to microseconds; None and a fault outside years 1 to 9999."""
    if not (_YEAR_1 <= message.seconds < _YEAR_10000 and 0 <= message.nanos < _NANOS):
        faults.append(FieldViolation(field, "is not a valid timestamp"))
        return None
    return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def duration(seconds: float | None) -> Duration | None:
    """Return seconds as a message, rounded to nanoseconds, or the longest that there is.

    NaN, which only a hand in the database can have stored, is no duration.
    """
    if seconds is None or math.isnan(seconds):
        return None
    message = Duration()
    bounded = min(max(seconds, -_MAX_DURATION_S), _MAX_DURATION_S)
    message.FromNanoseconds(round(bounded * _NANOS))
    return message


def timestamp(instant: datetime | None) -> Timestamp | None:
    """Return an instant as a message."""
    if instant is None:
        return None
    message = Timestamp()
    message.FromDatetime(instant)
    return message
