"""Failures of calls: every canonical code, the server's words and reason, repeats, deadlines."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from jobqueue import errors
from jobqueue.client import AsyncClient, Client, JobSpec, Tls
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.v1 import event_service_pb2 as events
from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, Failure, FakeService, info, job, nobody
from tests.support.waiting import HANG_S, eventually

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


def test_a_stopped_server_is_named() -> None:
    with (
        nobody() as address,
        Client(address) as client,
        pytest.raises(errors.Unavailable) as caught,
    ):
        client.cancel(JOB_ID)
    assert address in caught.value.message
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


class Silent:
    """Answers some calls when the test ends, and tells when they were asked."""

    def __init__(self, service: FakeService) -> None:
        self._service = service
        self._ended = threading.Event()
        service.answer("GetVersion", self._wait)
        service.answer("RunDoctor", self._wait)
        service.answer("WatchJob", self._wait)
        broken: list[Message | Failure] = [
            events.TailEventsResponse(place="a"),
            Failure(Code.UNAVAILABLE, "gone"),
        ]
        service.answer("TailEvents", broken, self._wait)

    async def asked(self, method: str, times: int = 1) -> None:
        async def looked() -> bool:
            return len(self._service.asked[method]) == times

        await eventually(looked, what="the call")

    def end(self) -> None:
        self._ended.set()

    def _wait(self, _request: object) -> Failure:
        self._ended.wait(HANG_S)
        return Failure(Code.ABORTED, "the test is over")


@pytest.fixture
def silent(service: FakeService) -> Iterator[Silent]:
    made = Silent(service)
    yield made
    made.end()


async def test_calls_under_way_when_their_client_is_closed_are_unavailable(
    client: Client, aclient: AsyncClient, silent: Silent
) -> None:
    calls = asyncio.gather(
        aclient.version(),
        anext(aclient.doctor()),
        asyncio.to_thread(client.version),
        return_exceptions=True,
    )
    await silent.asked("GetVersion", 2)
    await silent.asked("RunDoctor")
    await aclient.close()
    client.close()
    assert [type(error) for error in await calls] == [errors.Unavailable] * 3


async def test_a_follower_whose_client_is_closed_does_not_wait_for_another_server(
    client: Client, aclient: AsyncClient, service: FakeService, silent: Silent
) -> None:
    service.answer("GetJob", jobs.GetJobResponse(job=job()))
    tail = asyncio.ensure_future(anext(aclient.tail_events(follow=True)))
    await silent.asked("TailEvents", 2)
    calls = asyncio.gather(
        tail, aclient.wait(JOB_ID), asyncio.to_thread(client.wait, JOB_ID), return_exceptions=True
    )
    await silent.asked("WatchJob", 2)
    await aclient.close()
    client.close()
    for error in await calls:
        assert isinstance(error, errors.Unavailable)
        assert error.reason == "CLIENT_CLOSED"


async def test_who_is_cancelled_during_a_call_is_cancelled(
    aclient: AsyncClient, silent: Silent
) -> None:
    call = asyncio.create_task(aclient.version())
    await silent.asked("GetVersion")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_closed_client_refuses_calls(client: Client, aclient: AsyncClient) -> None:
    client.close()
    await aclient.close()
    for refused in (asyncio.to_thread(client.version), aclient.version(), aclient.wait(JOB_ID)):
        with pytest.raises(errors.FailedPrecondition, match="closed") as caught:
            await refused
        assert caught.value.reason == "CLIENT_CLOSED"
