"""Whatever comes in at the doors of a server gets an answer, and what is refused leaves nothing."""

import logging
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg
import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from jobqueue.domain.limits import KIB, Limits
from jobqueue.externalscaler import externalscaler_pb2 as scaler_pb
from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import doctor_pb2, job_pb2
from jobqueue.v1 import event_service_pb2 as events_pb
from jobqueue.v1 import job_service_pb2 as jobs_pb
from jobqueue.v1 import worker_service_pb2 as worker_pb
from jobqueue.v1 import worker_service_pb2_grpc as worker_grpc
from tests.support.facade import Facade, serving
from tests.support.redis import free_port
from tests.support.wire import wrong_fields

EXAMPLES = int(os.environ.get("JQ_TEST_FUZZ_EXAMPLES", "300"))
SEED = int(os.environ.get("JQ_TEST_SEED", "0"))
SCALER, NO_FIGURES = "/externalscaler.", grpc.StatusCode.UNAVAILABLE
"""A server that has not yet read the figures, or not for long, says so."""
ANSWER_WITHIN_S, FIRST_WORD_WITHIN_S = 30.0, 1.0
SILENT = grpc.StatusCode.DEADLINE_EXCEEDED
MAY_BE_SILENT = frozenset(
    {
        "/jobqueue.v1.WorkerService/StreamJobs",
        "/jobqueue.v1.EventService/TailEvents",
        f"{SCALER}ExternalScaler/StreamIsActive",
    }
)
"""Streams that, once accepted, may have nothing to say. The others answer at once."""
REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ABORTED,  # another check-up runs
    }
)
SERVICES: tuple[ServiceDescriptor, ...] = tuple(
    service
    for module in (jobs_pb, admin_pb, worker_pb, events_pb, scaler_pb, health_pb2, reflection_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
)
METHODS = {
    f"/{service.full_name}/{method.name}": method
    for service in SERVICES
    for method in service.methods
}
STORED = """
    SELECT (SELECT count(*) FROM jobqueue.jobs), (SELECT count(*) FROM jobqueue.queues),
           (SELECT count(*) FROM jobqueue.idempotency_keys),
           (SELECT count(*) FROM jobqueue.worker_names),
           (SELECT count(*) FROM jobqueue.job_events WHERE reason = 'SUBMITTED'),
           (SELECT sum(hashtext(q::text)) FROM jobqueue.queues q)
"""
"""What callers can add to; the rest moves by itself too."""


@dataclass(frozen=True)
class Target:
    """A server, its two doors, what stands behind them."""

    facade: Facade
    scaler: grpc.aio.Channel
    db: asyncpg.Connection
    good: Mapping[str, bytes]

    async def call(self, path: str, request: bytes) -> grpc.StatusCode | None:
        """Send bytes; return the code of a refusal, None when something else came back."""
        method = METHODS[path]
        try:
            await self._first_answer(path, method, request)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return None

    async def _first_answer(self, path: str, method: MethodDescriptor, request: bytes) -> None:
        channel: Any = self.facade.channel
        if method.containing_service in scaler_pb.DESCRIPTOR.services_by_name.values():
            channel = self.scaler
        if not method.server_streaming:
            await channel.unary_unary(path)(request, timeout=ANSWER_WITHIN_S)
            return
        too_large = len(request) > message_bytes(path)
        answers = too_large or path not in MAY_BE_SILENT
        within_s = ANSWER_WITHIN_S if answers else FIRST_WORD_WITHIN_S
        if method.client_streaming:
            call = channel.stream_stream(path)(iter([request]), timeout=within_s)
        else:
            call = channel.unary_stream(path)(request, timeout=within_s)
        await call.read()
        call.cancel()

    async def stored(self) -> asyncpg.Record | None:
        """Return what callers have added so far."""
        return await self.db.fetchrow(STORED)


def good_requests(job: str, session: str, other: str, lease: str) -> Mapping[str, Message]:
    """Return a request for each method that is accepted as it is, or by another state of things."""
    spec = job_pb2.JobSpec(queue="default", payload=b"x")
    trigger = scaler_pb.ScaledObjectRef(scalerMetadata={"queues": "*", "targetPerReplica": "1"})
    policy = admin_pb.QueuePolicy(max_retries=1)
    jobs, admin = "/jobqueue.v1.JobService/", "/jobqueue.v1.AdminService/"
    worker, events = "/jobqueue.v1.WorkerService/", "/jobqueue.v1.EventService/"
    scaler, reflection = "/externalscaler.ExternalScaler/", "/grpc.reflection.v1alpha."
    return {
        f"{jobs}SubmitJob": jobs_pb.SubmitJobRequest(job=spec),
        f"{jobs}SubmitJobs": jobs_pb.SubmitJobsRequest(jobs=[spec, spec]),
        f"{jobs}GetJob": jobs_pb.GetJobRequest(job_id=job),
        f"{jobs}ListJobs": jobs_pb.ListJobsRequest(),
        f"{jobs}ListJobEvents": jobs_pb.ListJobEventsRequest(job_id=job),
        f"{jobs}CancelJob": jobs_pb.CancelJobRequest(job_id=job),
        f"{jobs}RetryJob": jobs_pb.RetryJobRequest(job_id=job),
        f"{jobs}DeleteJob": jobs_pb.DeleteJobRequest(job_id=job),
        f"{jobs}WatchJob": jobs_pb.WatchJobRequest(job_id=job),
        f"{admin}CreateQueue": admin_pb.CreateQueueRequest(name="made", policy=policy),
        f"{admin}UpdateQueue": admin_pb.UpdateQueueRequest(name="default", policy=policy),
        f"{admin}GetQueue": admin_pb.GetQueueRequest(name="default"),
        f"{admin}ListQueues": admin_pb.ListQueuesRequest(),
        f"{admin}DeleteQueue": admin_pb.DeleteQueueRequest(name="made"),
        f"{admin}PauseQueue": admin_pb.PauseQueueRequest(name="default"),
        f"{admin}ResumeQueue": admin_pb.ResumeQueueRequest(name="default"),
        f"{admin}GetQueueStats": admin_pb.GetQueueStatsRequest(queue="default"),
        f"{admin}ListWorkers": admin_pb.ListWorkersRequest(),
        f"{admin}DrainWorker": admin_pb.DrainWorkerRequest(worker_id="w-2"),
        f"{admin}ShutdownWorker": admin_pb.ShutdownWorkerRequest(worker_id="w-2"),
        f"{admin}GetSystemStatus": admin_pb.GetSystemStatusRequest(),
        f"{admin}RunDoctor": doctor_pb2.RunDoctorRequest(quick=True),
        f"{admin}GetVersion": admin_pb.GetVersionRequest(),
        f"{worker}Register": worker_pb.RegisterRequest(
            worker_id="w-3", hostname="h", queues=["default"], concurrency=1, version="1"
        ),
        f"{worker}StreamJobs": worker_pb.StreamJobsRequest(session=other),
        f"{worker}StartJobs": worker_pb.StartJobsRequest(session=session, leases=[lease]),
        f"{worker}Heartbeat": worker_pb.HeartbeatRequest(session=session, leases=[lease]),
        f"{worker}ReportResults": worker_pb.ReportResultsRequest(
            session=session, results=[worker_pb.Result(lease=lease, outcome="OUTCOME_RELEASED")]
        ),
        f"{worker}ReportProgress": worker_pb.ReportProgressRequest(
            session=session, progress=[worker_pb.Progress(lease=lease, percent=1)]
        ),
        f"{worker}ReleaseJobs": worker_pb.ReleaseJobsRequest(session=session, leases=[lease]),
        f"{worker}Deregister": worker_pb.DeregisterRequest(session=other),
        f"{events}TailEvents": events_pb.TailEventsRequest(),
        f"{events}ListParkedEvents": events_pb.ListParkedEventsRequest(),
        f"{events}ResendParkedEvents": events_pb.ResendParkedEventsRequest(),
        f"{events}DisconnectKafka": events_pb.DisconnectKafkaRequest(),
        f"{scaler}IsActive": trigger,
        f"{scaler}StreamIsActive": trigger,
        f"{scaler}GetMetricSpec": trigger,
        f"{scaler}GetMetrics": scaler_pb.GetMetricsRequest(scaledObjectRef=trigger),
        "/grpc.health.v1.Health/Check": health_pb2.HealthCheckRequest(),
        "/grpc.health.v1.Health/Watch": health_pb2.HealthCheckRequest(),
        f"{reflection}ServerReflection/ServerReflectionInfo": (
            reflection_pb2.ServerReflectionRequest(list_services="*")
        ),
    }


@pytest_asyncio.fixture
async def target(database: str, conn: asyncpg.Connection) -> AsyncIterator[Target]:
    port = free_port()
    async with (
        serving(database, scaler__port=port) as facade,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as scaler,
    ):
        await facade.admin.CreateQueue(admin_pb.CreateQueueRequest(name="held"))
        job_id = await facade.submit("held")
        session, lease = await leased(facade, "w-1", "held")
        other = await registered(facade, "w-2", "default")
        good = good_requests(job_id, session, other, lease)
        requests = {path: request.SerializeToString() for path, request in good.items()}
        yield Target(facade, scaler, conn, requests)


async def registered(facade: Facade, worker_id: str, queue: str) -> str:
    """Register a worker and return its session."""
    stub = worker_grpc.WorkerServiceStub(facade.channel)
    facts = worker_pb.RegisterRequest(worker_id=worker_id, hostname="h", version="1", concurrency=1)
    facts.queues.append(queue)
    return (await stub.Register(facts)).session


async def leased(facade: Facade, worker_id: str, queue: str) -> tuple[str, str]:
    """Let a worker take and start a job of this queue; return its session and the lease."""
    session = await registered(facade, worker_id, queue)
    stub: Any = worker_grpc.WorkerServiceStub(facade.channel)
    stream = stub.StreamJobs(worker_pb.StreamJobsRequest(session=session))
    lease = (await stream.read()).job.lease
    await stub.StartJobs(worker_pb.StartJobsRequest(session=session, leases=[lease]))
    stream.cancel()
    return session, lease


def message_bytes(path: str) -> int:
    """Return how long a message of this method may be."""
    return 64 * KIB if path.startswith(SCALER) else Limits().message_bytes


def drawn(examples: int) -> list[tuple[str, bytes]]:
    """Return methods, each with what is to be put behind a good request. Always the same ones.

    All at once, because Hypothesis and a server that runs meanwhile draw from one source.
    """
    attacks: list[tuple[str, bytes]] = []

    @given(st.sampled_from(sorted(METHODS)), st.data())
    @settings(max_examples=examples, database=None, phases=[Phase.generate])
    @seed(SEED)
    def draw(path: str, data: st.DataObject) -> None:
        attacks.append((path, data.draw(wrong_fields(METHODS[path].input_type))))

    draw()
    return attacks


@pytest.mark.timeout(300)
async def test_no_bytes_break_a_method_and_what_is_refused_leaves_nothing(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    assert target.good.keys() == METHODS.keys(), "a method without an example"
    refused = 0
    for path, wrong in drawn(EXAMPLES):
        before = await target.stored()
        request = target.good[path] + wrong
        code = await target.call(path, request)
        if len(request) > message_bytes(path):
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            continue
        may_be_silent = path in MAY_BE_SILENT and code is SILENT
        may_be_silent |= path.startswith(SCALER) and code is NO_FIGURES
        attack = f"{path} {wrong[:200]!r} ({len(wrong)} bytes): {code}"
        assert code is None or code in REFUSALS or may_be_silent, attack
        assert code not in REFUSALS or await target.stored() == before, attack
        assert not [r for r in caplog.records if r.levelno >= logging.ERROR], attack
        refused += code in REFUSALS
    assert refused > EXAMPLES / 4
