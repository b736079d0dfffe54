from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.columns import JobColumns, columns_of
from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import (
    MIB,
    MORE,
    Limits,
    check_batch,
    name_faults,
    parse_priority,
    safe_text,
    spec_faults,
    worker_faults,
)
from jobqueue.domain.worker import WorkerFacts
from jobqueue.errors import FieldViolation, InvalidArgument

LIMITS = Limits()
TEN_YEARS = 10 * 365 * 86_400.0
BASE = JobSpec("mail")
# At the ends of the calendar they have times that UTC has not.
FAR_EAST, FAR_WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
HUGE = 10**400  # more than a float can hold
# 2 bytes each, so that bytes and characters are told apart.
WIDE = "é"


def bad_fields(**change: Any) -> list[str]:
    return [v.field for v in spec_faults(replace(BASE, **change), LIMITS)]


GOOD: list[dict[str, Any]] = [
    {"queue": "a"},
    {"queue": "Az09._-" + "x" * 121},
    {"type": "x" * 128},
    {"payload": b"x" * MIB},
    {"priority": 0},
    {"priority": 9},
    {"max_retries": 0},
    {"max_retries": 1000},
    {"ttl_s": 0.000001},
    {"ttl_s": TEN_YEARS},
    {"timeout_s": TEN_YEARS},
    {"delay_s": 0.0},
    {"delay_s": TEN_YEARS},
    {"not_before": datetime(1970, 1, 1, tzinfo=UTC)},
    {"idempotency_key": "k"},
    {"idempotency_key": WIDE * 128},
    {"tenant": WIDE * 128},
    {"labels": {f"k{i}": "" for i in range(32)}},
    {"labels": {WIDE * 128: WIDE * 128}},
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"queue": ""}, "job.queue"),
    ({"queue": "x" * 129}, "job.queue"),
    ({"queue": "a b"}, "job.queue"),
    ({"queue": "a\n"}, "job.queue"),
    ({"queue": WIDE}, "job.queue"),
    ({"type": ""}, "job.type"),
    ({"type": "a/b"}, "job.type"),
    ({"payload": b"x" * (MIB + 1)}, "job.payload"),
    ({"priority": -1}, "job.priority"),
    ({"priority": 10}, "job.priority"),
    ({"max_retries": -1}, "job.max_retries"),
    ({"max_retries": 1001}, "job.max_retries"),
    ({"max_retries": HUGE}, "job.max_retries"),
    ({"priority": -HUGE}, "job.priority"),
    ({"delay_s": HUGE}, "job.delay"),
    ({"ttl_s": HUGE}, "job.ttl"),
    ({"ttl_s": 0.0}, "job.ttl"),
    ({"ttl_s": -1.0}, "job.ttl"),
    ({"ttl_s": float("nan")}, "job.ttl"),
    ({"ttl_s": TEN_YEARS + 1}, "job.ttl"),
    ({"timeout_s": 0.0}, "job.run_timeout"),
    ({"timeout_s": float("inf")}, "job.run_timeout"),
    ({"delay_s": -0.001}, "job.delay"),
    ({"delay_s": TEN_YEARS + 1}, "job.delay"),
    ({"delay_s": float("nan")}, "job.delay"),
    ({"not_before": datetime(2030, 1, 1)}, "job.not_before"),  # noqa: DTZ001
    ({"not_before": datetime(1, 1, 1, tzinfo=FAR_EAST)}, "job.not_before"),
    ({"not_before": datetime(9999, 12, 31, 23, tzinfo=FAR_WEST)}, "job.not_before"),
    ({"not_before": datetime(2030, 1, 1, tzinfo=UTC), "delay_s": 1.0}, "job.not_before"),
    ({"idempotency_key": ""}, "job.idempotency_key"),
    ({"idempotency_key": WIDE * 128 + "x"}, "job.idempotency_key"),
    ({"idempotency_key": "a\x00"}, "job.idempotency_key"),
    ({"idempotency_key": "\ud800"}, "job.idempotency_key"),
    ({"tenant": WIDE * 128 + "x"}, "job.tenant"),
    ({"labels": {f"k{i}": "" for i in range(33)}}, "job.labels"),
    ({"labels": {"": "x"}}, "job.labels"),
    ({"labels": {"k": WIDE * 128 + "x"}}, "job.labels['k']"),
    ({"labels": {WIDE * 128 + "x": ""}}, "job.labels key"),
    ({"trace_context": {"traceparent": "x\x00"}}, "job.trace_context['traceparent']"),
]


@pytest.mark.parametrize("change", GOOD, ids=lambda c: f"{next(iter(c))}")
def test_a_value_at_its_limit_is_good(change: dict[str, Any]) -> None:
    assert bad_fields(**change) == []


@pytest.mark.parametrize(("change", "field"), BAD, ids=[field for _, field in BAD])
def test_a_value_past_its_limit_is_named(change: dict[str, Any], field: str) -> None:
    assert bad_fields(**change) == [field]


@pytest.mark.parametrize(("change", "field"), BAD, ids=[field for _, field in BAD])
def test_a_value_past_its_limit_is_named_in_a_batch(change: dict[str, Any], field: str) -> None:
    named = [v.field for v in told(columns_of([BASE, replace(BASE, **change)]))]
    assert named == [field.replace("job", "jobs[1]", 1)]


def test_all_faults_are_said_at_once() -> None:
    assert bad_fields(queue="", priority=10, ttl_s=-1.0) == ["job.queue", "job.priority", "job.ttl"]


def test_lowered_limits_hold() -> None:
    faults = spec_faults(replace(BASE, payload=b"xyz"), Limits(payload_bytes=2))
    assert [f.description for f in faults] == ["is larger than 2 bytes"]


def test_a_lowered_limit_holds_for_what_it_names_and_for_nothing_else() -> None:
    low = Limits(key_bytes=8, labels=0)
    trace = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}
    assert not list(spec_faults(replace(BASE, trace_context=trace), low))
    host = WorkerFacts("w", "ip-10-0-0-1.internal", 1, ("q",), (), 1, "remote", "0.1.0")
    assert not list(worker_faults(host, low))
    faults = spec_faults(replace(BASE, labels={"a": "b"}, idempotency_key="123456789"), low)
    assert {fault.field for fault in faults} == {"job.labels", "job.idempotency_key"}


@given(st.text(st.sampled_from("AZaz09._-"), min_size=1, max_size=128))
def test_a_name_of_the_allowed_characters_is_good(name: str) -> None:
    assert not list(name_faults("queue", name, LIMITS))


@pytest.mark.parametrize(
    ("text", "value"),
    [("critical", 9), ("HIGH", 7), ("normal", 5), ("low", 1), ("0", 0), (" 9 ", 9)],
)
def test_a_priority_is_a_digit_or_a_name(text: str, value: int) -> None:
    assert parse_priority(text) == value


@pytest.mark.parametrize("text", ["", "10", "-1", "1.0", "urgent", "٣"])
def test_any_other_priority_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="priority must be 0 to 9"):
        parse_priority(text)


def test_a_batch_of_ten_thousand_is_good_and_one_more_is_not() -> None:
    check_batch(columns_of([BASE] * 10_000), LIMITS)
    with pytest.raises(InvalidArgument, match="jobs: has more than 10000 jobs"):
        check_batch(columns_of([BASE] * 10_001), LIMITS)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="jobs: must not be empty"):
        check_batch(columns_of([]), LIMITS)


def test_the_payloads_of_a_batch_are_bounded_together() -> None:
    full = replace(BASE, payload=b"x" * MIB)
    check_batch(columns_of([full] * 32), LIMITS)
    with pytest.raises(InvalidArgument, match="jobs: payloads add up"):
        check_batch(columns_of([*[full] * 32, replace(BASE, payload=b"x")]), LIMITS)


def test_a_bad_item_of_a_batch_is_named_by_its_index() -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_batch(columns_of([BASE, BASE, replace(BASE, priority=10)]), LIMITS)
    assert [v.field for v in caught.value.violations] == ["jobs[2].priority"]


def test_of_many_faults_the_first_are_told_and_that_there_are_more() -> None:
    bad = replace(BASE, priority=10, max_retries=-1)
    check_all = [v.field for v in told(columns_of([bad] * 50))]
    assert len(check_all) == 100
    assert "" not in check_all
    *first, last = told(columns_of([bad] * 10_000))
    assert [v.field for v in first] == check_all
    assert last == MORE


def told(columns: JobColumns) -> Sequence[FieldViolation]:
    with pytest.raises(InvalidArgument) as caught:
        check_batch(columns, LIMITS)
    return caught.value.violations


SURROGATES = st.characters(categories=["Cs", "Lu", "Cc", "So"])


@given(st.text(SURROGATES), st.integers(0, 60))
def test_safe_text_can_always_be_stored_within_its_size(text: str, max_bytes: int) -> None:
    safe = safe_text(text, max_bytes)
    assert "\x00" not in safe
    assert len(safe.encode()) <= max_bytes


def test_safe_text_changes_nothing_that_was_safe() -> None:
    assert safe_text("tschüß 🎉", 100) == "tschüß 🎉"


def test_safe_text_marks_what_it_replaces_and_cuts() -> None:
    assert safe_text("a\x00b\ud800c", 100) == "a\ufffdb\ufffdc"
    assert safe_text("x" * 100, 30) == "x" * 14 + " … [truncated]"
