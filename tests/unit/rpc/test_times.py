from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.errors import FieldViolation
from jobqueue.rpc.times import duration, read_instant, read_seconds, timestamp

LONGEST = 315_576_000_000


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [
        (LONGEST + 1, 0),
        (-LONGEST - 1, 0),
        (0, 1_000_000_000),
        (0, -1_000_000_000),
        (1, -1),
        (-1, 1),
        (2**63 - 1, 0),
    ],
)
def test_what_is_no_duration_is_named(seconds: int, nanos: int) -> None:
    faults: list[FieldViolation] = []
    assert read_seconds(Duration(seconds=seconds, nanos=nanos), "job.ttl", faults) is None
    assert faults == [FieldViolation("job.ttl", "is not a valid duration")]


@pytest.mark.parametrize(
    ("seconds", "nanos", "value"), [(0, 0, 0.0), (1, 500_000_000, 1.5), (-1, -500_000_000, -1.5)]
)
def test_a_duration_is_read_in_seconds(seconds: int, nanos: int, value: float) -> None:
    faults: list[FieldViolation] = []
    assert read_seconds(Duration(seconds=seconds, nanos=nanos), "x", faults) == value
    assert faults == []


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(253_402_300_800, 0), (-62_135_596_801, 0), (0, -1), (0, 1_000_000_000), (2**63 - 1, 0)],
)
def test_what_is_no_instant_is_named(seconds: int, nanos: int) -> None:
    faults: list[FieldViolation] = []
    assert read_instant(Timestamp(seconds=seconds, nanos=nanos), "job.not_before", faults) is None
    assert [fault.field for fault in faults] == ["job.not_before"]


def test_the_first_and_the_last_instant_are_read() -> None:
    faults: list[FieldViolation] = []
    last = read_instant(Timestamp(seconds=253_402_300_799, nanos=999_999_999), "x", faults)
    first = read_instant(Timestamp(seconds=-62_135_596_800), "x", faults)
    assert (first, last) == (
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    )
    assert faults == []


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_survives_the_wire(instant: datetime) -> None:
    message = timestamp(instant)
    assert message is not None
    assert read_instant(message, "x", []) == instant


@given(st.timedeltas(timedelta(0), timedelta(days=3650)))
def test_a_duration_survives_the_wire(length: timedelta) -> None:
    message = duration(length.total_seconds())
    assert message is not None
    assert read_seconds(message, "x", []) == pytest.approx(length.total_seconds(), abs=1e-6)


def test_absent_stays_absent() -> None:
    assert duration(None) is None
    assert timestamp(None) is None
