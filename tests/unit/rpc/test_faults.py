from collections.abc import Iterator
from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2
from hypothesis import example, given
from hypothesis import strategies as st

from jobqueue.domain.limits import check
from jobqueue.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    JobQueueError,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from jobqueue.rpc.faults import internal, to_status

M = TypeVar("M", bound=Message)
TRAILER_BYTES = 8_000
"""A client takes 8 KiB of metadata by default, and refuses more."""
BAD = InvalidArgument([FieldViolation("job.queue", "must not be empty")])
ERRORS = [
    (BAD, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    (NotFound("job", "x"), grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND"),
    (AlreadyExists("queue", "q", "taken"), grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS"),
    (FailedPrecondition("x", reason="JOB_DONE"), grpc.StatusCode.FAILED_PRECONDITION, "JOB_DONE"),
    (Aborted("x"), grpc.StatusCode.ABORTED, "ABORTED"),
    (ResourceExhausted("x"), grpc.StatusCode.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"),
    (Unavailable("x"), grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
    (DeadlineExceeded("x"), grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
    (internal(), grpc.StatusCode.INTERNAL, "INTERNAL"),
    (JobQueueError("x"), grpc.StatusCode.UNKNOWN, "UNKNOWN"),
]


def found(status: status_pb2.Status, kind: type[M]) -> Iterator[M]:
    for packed in status.details:
        message = kind()
        if packed.Unpack(message):
            yield message


@pytest.mark.parametrize(("error", "code", "reason"), ERRORS, ids=[e[2] for e in ERRORS])
def test_every_error_has_its_canonical_code_and_a_reason(
    error: JobQueueError, code: grpc.StatusCode, reason: str
) -> None:
    status = to_status(error)
    assert status.code == code.value[0]
    assert status.message == error.message
    (info,) = found(status, details.ErrorInfo)
    assert (info.reason, info.domain) == (reason, "jobqueue")


def test_a_bad_field_is_named() -> None:
    (bad,) = found(to_status(BAD), details.BadRequest)
    assert [(v.field, v.description) for v in bad.field_violations] == [
        ("job.queue", "must not be empty")
    ]


def test_a_missing_or_taken_thing_is_named() -> None:
    for error in (NotFound("queue", "mail"), AlreadyExists("queue", "mail", "taken")):
        (resource,) = found(to_status(error), details.ResourceInfo)
        (info,) = found(to_status(error), details.ErrorInfo)
        assert (resource.resource_type, resource.resource_name) == ("queue", "mail")
        assert dict(info.metadata) == {"kind": "queue", "name": "mail"}


@pytest.mark.parametrize("error", [Unavailable("x"), Aborted("x")])
def test_what_may_be_tried_again_says_when(error: JobQueueError) -> None:
    (retry,) = found(to_status(error), details.RetryInfo)
    assert retry.retry_delay.ToMilliseconds() > 0


def test_what_cannot_be_tried_again_does_not() -> None:
    assert not list(found(to_status(FailedPrecondition("x")), details.RetryInfo))


@given(st.text(), st.integers(0, 3))
@example("\N{OCTOPUS}", 3)
def test_no_input_makes_a_status_too_large_for_a_trailer(text: str, power: int) -> None:
    long = text * 10**power
    many = InvalidArgument([FieldViolation(long, long)] * 20)
    for error in (many, NotFound("job", long), Unavailable(long)):
        status = to_status(error)
        # gRPC sends the message percent-encoded and the details in base64.
        assert 3 * len(status.message.encode()) + 4 * status.ByteSize() // 3 < TRAILER_BYTES


def test_of_many_bad_fields_the_first_are_named_and_the_rest_counted() -> None:
    many = InvalidArgument([FieldViolation(f"jobs[{i}].ttl", "bad") for i in range(10_000)])
    (bad,) = found(to_status(many), details.BadRequest)
    assert bad.field_violations[0].field == "jobs[0].ttl"
    assert bad.field_violations[-1].description == "and 9984 more"
    with pytest.raises(InvalidArgument) as caught:
        check(many.violations)
    (bad,) = found(to_status(caught.value), details.BadRequest)
    assert (len(bad.field_violations), bad.field_violations[-1].description) == (17, "and more")
