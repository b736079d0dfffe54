from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.content import content_hash, derived_job_ids, random_job_ids
from jobqueue.domain.job import JobSpec

BASE = JobSpec("mail", b"hello")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "change",
    [
        {"queue": "other"},
        {"payload": b"hello!"},
        {"type": "send"},
        {"priority": 1},
        {"max_retries": 3},
        {"ttl_s": 1.0},
        {"timeout_s": 1.0},
        {"delay_s": 1.0},
        {"not_before": NOON},
    ],
    ids=lambda change: next(iter(change)),
)
def test_this_field_is_content(change: dict[str, Any]) -> None:
    assert content_hash(replace(BASE, **change)) != content_hash(BASE)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"a": "b"}},
        {"tenant": "t"},
        {"trace_context": {"traceparent": "00-1"}},
        {"idempotency_key": "k"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_this_field_is_not_content(change: dict[str, Any]) -> None:
    assert content_hash(replace(BASE, **change)) == content_hash(BASE)


def test_no_value_said_is_other_content_than_the_same_value_in_another_field() -> None:
    times: list[dict[str, Any]] = [{"ttl_s": 5.0}, {"timeout_s": 5.0}, {"delay_s": 5.0}]
    assert len({content_hash(replace(BASE, **change)) for change in times}) == 3


def test_the_same_time_said_differently_is_the_same_content() -> None:
    whole = content_hash(replace(BASE, ttl_s=5, delay_s=1))
    assert whole == content_hash(replace(BASE, ttl_s=5.0, delay_s=1.0))
    there = NOON.astimezone(timezone(timedelta(hours=5)))
    assert content_hash(replace(BASE, not_before=NOON)) == content_hash(
        replace(BASE, not_before=there)
    )


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_different_payloads_are_different_content(one: bytes, other: bytes) -> None:
    same = content_hash(replace(BASE, payload=one)) == content_hash(replace(BASE, payload=other))
    assert same == (one == other)


def uuids(raw: bytes) -> list[UUID]:
    return [UUID(bytes=raw[at : at + 16]) for at in range(0, len(raw), 16)]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 300))
def test_derived_ids_are_uuids_v4_and_repeatable(request_id: str, count: int) -> None:
    made = derived_job_ids(request_id, count)
    assert made == derived_job_ids(request_id, count + 1)[: 16 * count]
    assert {(id_.version, id_.variant) for id_ in uuids(made)} == {(4, RFC_4122)}


def test_derived_ids_differ_by_index_and_request() -> None:
    made = [uuids(derived_job_ids(r, 1000)) for r in ("a", "b", "1:a", ":a")]
    assert len({id_ for ids in made for id_ in ids}) == 4000


def test_random_ids_are_uuids_v4() -> None:
    made = uuids(random_job_ids(1000))
    assert len(set(made)) == 1000
    assert {(id_.version, id_.variant) for id_ in made} == {(4, RFC_4122)}
