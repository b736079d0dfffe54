"""A remote worker's claims, against a server that answers as told."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from grpc import StatusCode

from jobqueue.domain.lease import Lease
from jobqueue.errors import Aborted
from jobqueue.remote.leases import RemoteLeases
from jobqueue.transport import Route
from jobqueue.v1 import worker_service_pb2 as pb
from tests.support.fake_service import JOB_ID, Failure, FakeService
from tests.support.waiting import HANG_S, eventually
from tests.support.workers import facts

LEASE = Lease(17, 42)
SENT = pb.StreamJobsResponse(
    job=pb.AssignedJob(lease=str(LEASE), job_id=JOB_ID, queue="q", type="t")
)


@pytest.fixture
def service() -> Iterator[FakeService]:
    """Knows the worker, sends it one job, and takes what is reported."""
    fake = FakeService()
    registered = pb.RegisterResponse(session="1")
    registered.lease_duration.FromSeconds(60)
    registered.renew_interval.FromSeconds(1)
    registered.heartbeat_interval.FromSeconds(1)
    registered.assignment_timeout.FromSeconds(60)
    fake.answer("Register", registered)
    fake.answer("Heartbeat", lambda beat: pb.HeartbeatResponse(renewed=beat.leases))
    fake.answer("StreamJobs", [SENT], [])
    fake.answer("ReportResults", settled)
    fake.answer("ReleaseJobs", pb.ReleaseJobsResponse())
    fake.answer("Deregister", pb.DeregisterResponse())
    fake.start()
    yield fake
    fake.stop()


@pytest_asyncio.fixture
async def leases(service: FakeService) -> AsyncIterator[RemoteLeases]:
    opened = RemoteLeases(Route(service.address), ["t"], stall_limit_s=300.0)
    await opened.open(facts())
    yield opened
    await opened.close()


def settled(request: pb.ReportResultsRequest) -> pb.ReportResultsResponse:
    state = pb.ReportResultsResponse.STATE_SETTLED
    report = pb.ReportResultsResponse.Report
    return pb.ReportResultsResponse(
        reports=[report(lease=each.lease, state=state) for each in request.results]
    )


async def test_a_job_whose_start_fails_once_claims_have_ended_is_handed_back(
    service: FakeService, leases: RemoteLeases
) -> None:
    drained = threading.Event()

    def fails(_request: pb.StartJobsRequest) -> Failure:
        drained.wait(HANG_S)
        return Failure(StatusCode.ABORTED, "it cannot be started")

    async def asked(method: str) -> bool:
        return bool(service.asked[method])

    service.answer("StartJobs", fails)
    assert await leases.wait_for_work(HANG_S)
    claiming = asyncio.create_task(leases.claim(1, running=True))
    await eventually(lambda: asked("StartJobs"), what="the start of the job")
    leases.stop_claiming()
    await eventually(lambda: asked("ReleaseJobs"), what="the end of the intake")
    assert not claiming.done()
    drained.set()
    with pytest.raises(Aborted):
        await claiming
    await eventually(lambda: asked("ReportResults"), what="the return of the job")
    (report,) = service.asked["ReportResults"][0].results
    assert (report.lease, report.outcome) == (str(LEASE), pb.Result.OUTCOME_RELEASED)

    async def dropped() -> bool:
        return leases._keeper.job(LEASE) is None

    await eventually(dropped, what="the end of its renewals")


async def test_a_claim_has_its_turn_when_the_one_before_it_is_answered(
    service: FakeService, leases: RemoteLeases
) -> None:
    may_start = threading.Event()

    def starts(request: pb.StartJobsRequest) -> pb.StartJobsResponse:
        may_start.wait(HANG_S)
        start, state = pb.StartJobsResponse.Start, pb.StartJobsResponse.STATE_STARTED
        return pb.StartJobsResponse(starts=[start(lease=k, state=state) for k in request.leases])

    async def asked() -> bool:
        return bool(service.asked["StartJobs"])

    service.answer("StartJobs", starts)
    assert await leases.wait_for_work(HANG_S)
    first, second = (asyncio.create_task(leases.claim(1, running=True)) for _ in range(2))
    await eventually(asked, what="the start of the job")
    assert not second.done()
    may_start.set()
    (job,) = await first
    assert (job.lease, await second) == (LEASE, [])
