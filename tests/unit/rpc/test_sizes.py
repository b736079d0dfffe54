"""What is refused before it is read, and that no honest request is."""

import tracemalloc

import pytest

from jobqueue.domain.limits import MAX_HELD, MIB
from jobqueue.errors import ResourceExhausted
from jobqueue.rpc.sizes import check_size
from jobqueue.v1 import job_pb2, job_service_pb2, worker_service_pb2

SUBMIT, HEARTBEAT = "JobService/SubmitJobs", "WorkerService/Heartbeat"


@pytest.mark.parametrize(
    "flood",
    [b"\x0a\x00" * 18_000_000, b"\x50\x01" * 18_000_000, b"\x55\x00\x00\x00\x00" * 7_000_000],
    ids=["empty jobs", "unknown numbers", "unknown fixed ones"],
)
def test_millions_of_elements_are_refused_unread(flood: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(ResourceExhausted, match="items"):
        check_size(SUBMIT, flood)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MIB


def test_the_largest_requests_that_anybody_needs_pass() -> None:
    spec = job_pb2.JobSpec(queue="q", payload=b"x" * 3_000)
    batch = job_service_pb2.SubmitJobsRequest(jobs=[spec] * 10_000)
    check_size(SUBMIT, batch.SerializeToString())
    held = [f"{2**63 - 1 - n}-{2**63 - 1}" for n in range(MAX_HELD)]
    beat = worker_service_pb2.HeartbeatRequest(leases=held, watched=held)
    check_size(HEARTBEAT, beat.SerializeToString())


@pytest.mark.parametrize("end", [b"\xff" * 11, b"\x0b", b"\x0a"], ids=["number", "group", "cut"])
def test_what_is_no_message_is_left_to_who_reads_it(end: bytes) -> None:
    large = job_service_pb2.SubmitJobRequest(job=job_pb2.JobSpec(payload=b"x" * 2 * MIB))
    check_size(SUBMIT, large.SerializeToString() + end)


def test_a_method_that_needs_little_takes_little() -> None:
    check_size("JobService/ListJobs", b"x" * MIB)
    with pytest.raises(ResourceExhausted, match="1048576 bytes at most"):
        check_size("JobService/ListJobs", b"x" * (MIB + 1))
