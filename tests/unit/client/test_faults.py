"""Failures of calls: every canonical code, the server's words and reason, repeats, deadlines."""

import threading
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2

from jobqueue import errors
from jobqueue.client import AsyncClient, Client, JobSpec, Tls
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, Failure, FakeService, info, job

Code = grpc.StatusCode
PLAIN = {
    Code.ABORTED: errors.Aborted,
    Code.ALREADY_EXISTS: errors.AlreadyExists,
    Code.CANCELLED: errors.Unavailable,
    Code.DATA_LOSS: errors.Internal,
    Code.DEADLINE_EXCEEDED: errors.DeadlineExceeded,
    Code.FAILED_PRECONDITION: errors.FailedPrecondition,
    Code.INTERNAL: errors.Internal,
    Code.INVALID_ARGUMENT: errors.InvalidArgument,
    Code.NOT_FOUND: errors.NotFound,
    Code.OUT_OF_RANGE: errors.InvalidArgument,
    Code.PERMISSION_DENIED: errors.PermissionDenied,
    Code.RESOURCE_EXHAUSTED: errors.ResourceExhausted,
    Code.UNAUTHENTICATED: errors.Unauthenticated,
    Code.UNAVAILABLE: errors.Unavailable,
    Code.UNIMPLEMENTED: errors.Internal,
    Code.UNKNOWN: errors.Internal,
}


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_every_code_is_an_error_of_ours(
    code: grpc.StatusCode, client: Client, service: FakeService
) -> None:
    service.answer("CancelJob", Failure(code, "what happened"))
    with pytest.raises(PLAIN[code]):
        client.cancel(JOB_ID)


def test_the_servers_reason_and_words_are_kept(client: Client, service: FakeService) -> None:
    failure = Failure(Code.FAILED_PRECONDITION, "job is RUNNING", info("JOB_RUNNING"))
    service.answer("CancelJob", failure)
    with pytest.raises(errors.FailedPrecondition, match=r"^job is RUNNING$") as caught:
        client.cancel(JOB_ID)
    assert (caught.value.reason, caught.value.message) == ("JOB_RUNNING", "job is RUNNING")
    assert isinstance(caught.value.__cause__, grpc.RpcError)


async def test_the_asynchronous_client_reads_the_same_details(
    aclient: AsyncClient, service: FakeService
) -> None:
    resource = error_details_pb2.ResourceInfo(resource_type="queue", resource_name="nope")
    message = "jobs[3].queue: queue 'nope' not found"
    failure = Failure(Code.NOT_FOUND, message, info("QUEUE_NOT_FOUND"), resource)
    service.answer("SubmitJob", failure)
    with pytest.raises(errors.NotFound) as caught:
        await aclient.submit(JobSpec("nope"))
    found = caught.value
    assert (found.kind, found.name, found.reason) == ("queue", "nope", "QUEUE_NOT_FOUND")
    assert str(found) == message


def test_every_bad_field_is_named(client: Client, service: FakeService) -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="job.ttl", description="is too long")
    bad.field_violations.add(field="job.queue", description="must not be empty")
    failure = Failure(Code.INVALID_ARGUMENT, "2 bad fields", info("INVALID_ARGUMENT"), bad)
    service.answer("GetJob", failure)
    with pytest.raises(errors.InvalidArgument) as caught:
        client.get(JOB_ID)
    assert [fault.field for fault in caught.value.violations] == ["job.ttl", "job.queue"]


def test_a_stopped_server_is_named(service: FakeService) -> None:
    service.stop()
    with Client(service.address) as client, pytest.raises(errors.Unavailable) as caught:
        client.cancel(JOB_ID)
    assert service.address in caught.value.message
    assert "refused" in caught.value.message


def test_a_repeatable_call_is_repeated_under_one_name(client: Client, service: FakeService) -> None:
    failure = Failure(Code.UNAVAILABLE, "the database restarts", info("UNAVAILABLE"))
    service.answer("SubmitJob", failure, failure, jobs.SubmitJobResponse(job_id=JOB_ID))
    client.submit(JobSpec("q"))
    assert len({asked.request_id for asked in service.asked["SubmitJob"]}) == 1
    assert len(service.asked["SubmitJob"]) == 3


def test_a_call_that_the_server_cut_off_is_repeated(client: Client, service: FakeService) -> None:
    cut_off = Failure(Code.CANCELLED, "CANCELLED")
    service.answer("GetJob", cut_off, jobs.GetJobResponse(job=job()))
    assert str(client.get(JOB_ID).job_id) == JOB_ID
    assert len(service.asked["GetJob"]) == 2


def test_a_large_batch_is_repeated_too(client: Client, service: FakeService) -> None:
    failure = Failure(Code.UNAVAILABLE, "the database restarts", info("UNAVAILABLE"))
    service.answer("SubmitJobs", failure, jobs.SubmitJobsResponse(job_ids=[JOB_ID] * 8))
    client.submit_many([JobSpec("q", b"x" * 900_000)] * 8)
    assert len(service.asked["SubmitJobs"]) == 2


@pytest.mark.parametrize("method", ["CancelJob", "RetryJob", "DeleteJob"])
def test_a_call_whose_repeat_would_mislead_is_sent_once(
    method: str, client: Client, service: FakeService
) -> None:
    service.answer(method, Failure(Code.UNAVAILABLE, "gone", info("UNAVAILABLE")))
    with pytest.raises(errors.Unavailable, match="gone"):
        getattr(client, method.removesuffix("Job").lower())(JOB_ID)
    assert len(service.asked[method]) == 1


def test_a_deadline_ends_a_call_that_is_not_answered(client: Client, service: FakeService) -> None:
    asked = threading.Event()

    def never(_request: object) -> admin.GetVersionResponse:
        asked.wait(60)
        return admin.GetVersionResponse()

    service.answer("GetVersion", never)
    with pytest.raises(errors.DeadlineExceeded, match="no answer from"):
        client.version(timeout_s=0.2)
    asked.set()


def test_arguments_that_cannot_work_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match="address"):
        Client(" ")
    with pytest.raises(errors.InvalidArgument, match="timeout"):
        Client(timeout_s=0)
    with pytest.raises(errors.InvalidArgument, match="api_key"):
        Client(api_key="line\nbreak")
    with pytest.raises(errors.InvalidArgument, match="together"):
        Client(tls=Tls(cert=tmp_path / "cert.pem"))
    with pytest.raises(errors.InvalidArgument, match=r"tls\.ca: cannot read"):
        Client(tls=Tls(ca=tmp_path / "none.pem"))


def test_a_secure_client_does_not_talk_to_a_plain_server(
    service: FakeService, tmp_path: Path
) -> None:
    service.answer("CancelJob", jobs.CancelJobResponse())
    with Client(service.address, tls=Tls()) as client, pytest.raises(errors.Unavailable):
        client.cancel(JOB_ID)
    assert not service.asked
