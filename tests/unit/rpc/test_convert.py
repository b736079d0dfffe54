from datetime import UTC, datetime
from uuid import UUID

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobqueue.domain.job import Job, JobEvent, JobFilter, JobSpec, Progress
from jobqueue.domain.limits import Limits
from jobqueue.domain.state import JobStatus, Reason
from jobqueue.errors import InvalidArgument
from jobqueue.events.encode import event_message
from jobqueue.rpc.convert import (
    job_message,
    read_columns,
    read_filter,
    read_job_id,
    read_page_size,
    read_request_id,
    read_spec,
)
from jobqueue.v1 import job_pb2, job_service_pb2

JOB_ID = UUID("b1e9c9a0-1111-4222-8333-444455556666")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TOO_LONG = Duration(seconds=2**62)


def test_what_is_absent_is_not_said() -> None:
    assert read_spec(job_pb2.JobSpec(queue="mail")) == JobSpec("mail")


def test_what_is_empty_is_said() -> None:
    spec = read_spec(
        job_pb2.JobSpec(queue="mail", type="", max_retries=0, idempotency_key="", ttl=Duration())
    )
    assert (spec.type, spec.max_retries, spec.idempotency_key, spec.ttl_s) == ("", 0, "", 0.0)


def test_every_field_of_a_submission_is_read() -> None:
    message = job_pb2.JobSpec(
        queue="mail",
        payload=b"\x00\xff",
        type="send",
        priority=7,
        max_retries=2,
        ttl=Duration(seconds=60),
        delay=Duration(nanos=500_000_000),
        not_before=Timestamp(seconds=1_893_499_200),
        run_timeout=Duration(seconds=5),
        idempotency_key="k",
        tenant="t",
        labels={"a": "b"},
        trace_context={"traceparent": "00"},
    )
    assert {f.name for f, _ in message.ListFields()} == set(
        job_pb2.JobSpec.DESCRIPTOR.fields_by_name
    )
    assert read_spec(message) == JobSpec(
        "mail",
        b"\x00\xff",
        "send",
        7,
        2,
        60.0,
        0.5,
        NOON,
        5.0,
        "k",
        "t",
        {"a": "b"},
        {"traceparent": "00"},
    )


def test_all_bad_times_of_a_submission_are_named_at_once() -> None:
    bad = job_pb2.JobSpec(
        queue="q",
        ttl=TOO_LONG,
        delay=TOO_LONG,
        not_before=Timestamp(nanos=-1),
        run_timeout=TOO_LONG,
    )
    with pytest.raises(InvalidArgument) as caught:
        read_spec(bad)
    assert [v.field for v in caught.value.violations] == [
        "job.ttl",
        "job.delay",
        "job.not_before",
        "job.run_timeout",
    ]


def test_a_bad_item_of_a_batch_is_named_by_its_index() -> None:
    good = job_pb2.JobSpec(queue="q")
    with pytest.raises(InvalidArgument, match=r"jobs\[1\]\.ttl: is not a valid duration"):
        read_columns([good, job_pb2.JobSpec(queue="q", ttl=TOO_LONG), good])


def test_a_batch_is_read_as_its_items_are_one_by_one() -> None:
    rich = job_pb2.JobSpec(
        queue="mail",
        payload=b"1",
        type="send",
        priority=7,
        max_retries=0,
        ttl=Duration(seconds=60),
        not_before=Timestamp(seconds=1_893_499_200),
        run_timeout=Duration(seconds=5),
        idempotency_key="k",
        tenant="t",
        labels={"a": "b"},
        trace_context={"traceparent": "00"},
    )
    empty = job_pb2.JobSpec(queue="mail", type="", ttl=Duration(), delay=Duration(seconds=1))
    for batch in ([rich, empty, rich], [rich] * 3, [empty] * 3, [job_pb2.JobSpec()] * 2, []):
        assert list(read_columns(batch).items()) == [read_spec(one) for one in batch]


@pytest.mark.parametrize(
    "text", ["", "x", "{b1e9c9a0-1111-4222-8333-444455556666}", JOB_ID.hex, "urn:uuid:x", "é" * 36]
)
def test_what_is_no_uuid_is_no_job_id(text: str) -> None:
    with pytest.raises(InvalidArgument, match="job_id: is not a UUID"):
        read_job_id(text)


@pytest.mark.parametrize("text", [str(JOB_ID), str(JOB_ID).upper()])
def test_a_uuid_is_read_in_either_case(text: str) -> None:
    assert read_job_id(text) == JOB_ID


@pytest.mark.parametrize(("text", "good"), [("", 1), ("x" * 15, 0), ("x" * 16, 1), ("x" * 65, 0)])
def test_a_request_id_is_empty_or_long_enough_not_to_be_guessed(text: str, good: int) -> None:
    if good:
        assert read_request_id(text) == text
    else:
        with pytest.raises(InvalidArgument, match="request_id"):
            read_request_id(text)


@pytest.mark.parametrize(("asked", "given"), [(0, 50), (1, 1), (1000, 1000), (1001, 1000)])
def test_a_page_has_fifty_by_default_and_at_most_a_thousand(asked: int, given: int) -> None:
    assert read_page_size(asked) == given


def test_a_negative_page_size_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="page_size"):
        read_page_size(-1)


def filter_of(**fields: object) -> JobFilter | None:
    return read_filter(job_service_pb2.ListJobsRequest(**fields), Limits())  # type: ignore[arg-type]


def test_an_empty_filter_matches_everything() -> None:
    assert filter_of() == JobFilter()


def test_a_filter_is_read() -> None:
    assert filter_of(queue="q", type="t", statuses=[1, 5, 5]) == JobFilter(
        "q", "t", frozenset({JobStatus.PENDING, JobStatus.FAILED})
    )


def test_the_unspecified_status_matches_nothing() -> None:
    assert filter_of(statuses=[0]) is None
    assert filter_of(statuses=[0, 4]) == JobFilter(statuses=frozenset({JobStatus.DONE}))


def test_every_bad_field_of_a_filter_is_named() -> None:
    with pytest.raises(InvalidArgument) as caught:
        filter_of(queue="a b", type="\x00", statuses=[1, 99])
    assert [v.field for v in caught.value.violations] == ["queue", "type", "statuses[1]"]


JOB = Job(
    job_id=JOB_ID,
    queue="mail",
    type="send",
    status=JobStatus.DONE,
    reason=Reason.COMPLETED,
    priority=7,
    attempt=2,
    retry_count=1,
    max_retries=3,
    created_at=NOON,
    payload=b"in",
    result=b"",
    result_truncated=True,
    last_error="boom",
    worker_id="w",
    not_before=NOON,
    started_at=NOON,
    finished_at=NOON,
    ttl_s=60.0,
    timeout_s=5.0,
    idempotency_key="k",
    tenant="t",
    cancel_requested=True,
    labels={"a": "b"},
    trace_context={"traceparent": "00"},
    progress=Progress(40, "resizing"),
)


def test_every_field_of_a_job_is_sent() -> None:
    message = job_message(JOB)
    assert {f.name for f, _ in message.ListFields()} == set(job_pb2.Job.DESCRIPTOR.fields_by_name)
    assert (message.job_id, message.result, message.run_timeout.seconds) == (str(JOB_ID), b"", 5)
    assert message.HasField("result")


def test_a_listed_job_has_no_bodies() -> None:
    message = job_message(JOB, bodies=False)
    assert (message.payload, message.HasField("result")) == (b"", False)


@pytest.mark.parametrize("status", JobStatus)
def test_every_status_has_its_enum_value(status: JobStatus) -> None:
    event = JobEvent(1, JOB_ID, "q", 1, None, JobStatus.PENDING, NOON, Reason.SUBMITTED, 0)
    message = event_message(event)
    assert message.from_status == job_pb2.JOB_STATUS_UNSPECIFIED
    assert message.to_status == job_pb2.JOB_STATUS_PENDING
    assert message.type == "job.submitted"
    number = job_pb2.JobStatus.Value(f"JOB_STATUS_{status}")
    assert filter_of(statuses=[number]) == JobFilter(statuses=frozenset({status}))
