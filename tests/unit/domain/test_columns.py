from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.columns import JobColumns, columns_of
from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import Limits, check_batch, spec_faults
from jobqueue.errors import FieldViolation, InvalidArgument

LIMITS = Limits(payload_bytes=2, batch_bytes=100)
SECONDS = st.sampled_from([None, -1.0, 0.0, 5.0])
MAPS = st.sampled_from([{}, {"a": "b"}, {"": "b"}, {"a": "\x00"}])
SPECS = st.builds(
    JobSpec,
    queue=st.sampled_from(["q", "r", ""]),
    payload=st.sampled_from([b"", b"x", b"xyz"]),
    type=st.sampled_from([None, "t", "", "ä"]),
    priority=st.sampled_from([0, 9, 10]),
    max_retries=st.sampled_from([None, 0, -1]),
    ttl_s=SECONDS,
    delay_s=SECONDS,
    not_before=st.sampled_from(
        [None, datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1)]  # noqa: DTZ001 - a fault
    ),
    timeout_s=SECONDS,
    idempotency_key=st.sampled_from([None, "", "k"]),
    tenant=st.sampled_from(["", "a", "\x00"]),
    labels=MAPS,
    trace_context=MAPS,
)
BATCHES = st.lists(SPECS, min_size=1, max_size=4) | SPECS.map(lambda spec: [spec] * 3)


def faults_of(specs: list[JobSpec]) -> list[FieldViolation]:
    try:
        check_batch(columns_of(specs), LIMITS)
    except InvalidArgument as error:
        return list(error.violations)
    return []


def test_the_columns_are_the_fields_of_a_submission() -> None:
    names = [field.name for field in fields(JobColumns)]
    assert names == ["size", *(field.name for field in fields(JobSpec))]


@given(BATCHES)
def test_columns_give_back_what_they_were_made_of(specs: list[JobSpec]) -> None:
    assert list(columns_of(specs).items()) == specs


def test_what_all_say_is_there_once_and_what_nobody_says_not_at_all() -> None:
    columns = columns_of([JobSpec("q", b"x", priority=3)] * 3)
    assert (columns.queue, columns.priority, columns.payload) == (["q"], [3], [b"x"] * 3)
    assert (columns.type, columns.tenant, columns.labels) == ((), (), ())


@given(BATCHES)
def test_a_batch_has_the_faults_of_its_items(specs: list[JobSpec]) -> None:
    each = [v for i, spec in enumerate(specs) for v in spec_faults(spec, LIMITS, f"jobs[{i}]")]
    assert faults_of(specs) == each


@given(SPECS)
def test_a_good_item_beside_a_bad_one_hides_nothing(spec: JobSpec) -> None:
    good = JobSpec("q")
    assert bool(faults_of([good, spec, good])) == bool(list(spec_faults(spec, LIMITS)))


def test_two_times_that_a_clock_shows_alike_stay_two() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2027, 10, 31, 2, 30, tzinfo=berlin)
    specs = [JobSpec(queue="q", not_before=at) for at in (first, first.replace(fold=1))]
    one, other = columns_of(specs).not_before
    assert one is not None
    assert other is not None
    assert other - one == timedelta(hours=1)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("missing", ["queue", "payload"])
def test_what_every_item_must_say_is_missed(missing: str, count: int) -> None:
    said: dict[str, Any] = {"queue": "q"} | {missing: None}
    specs = [JobSpec(**said)] * count
    assert {fault.field for fault in faults_of(specs)} == {
        f"jobs[{index}].{missing}" for index in range(count)
    }
