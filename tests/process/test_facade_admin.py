"""AdminService, called over the wire on a real server and database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import asyncpg
import grpc
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from jobqueue.v1 import admin_service_pb2 as pb
from jobqueue.v1 import job_service_pb2 as job_pb
from jobqueue.v1.job_pb2 import JobSpec
from tests.support.facade import Facade, bad_fields, reason, serving


@pytest_asyncio.fixture
async def facade(database: str) -> AsyncIterator[Facade]:
    async with serving(database, retry__max_retries=7) as facade:
        yield facade


async def refused(call: Awaitable[object], code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is code
    return caught.value


async def test_the_default_queue_is_there_with_the_servers_policy(facade: Facade) -> None:
    queue = (await facade.admin.GetQueue(pb.GetQueueRequest(name="default"))).queue
    assert queue.policy.max_retries == 7
    assert queue.policy.base_delay.seconds == 5


async def test_the_default_queue_cannot_be_deleted(facade: Facade) -> None:
    call = facade.admin.DeleteQueue(pb.DeleteQueueRequest(name="default", force=True))
    await refused(call, grpc.StatusCode.FAILED_PRECONDITION)


async def test_a_queue_is_made_once_with_what_was_said(facade: Facade) -> None:
    request = pb.CreateQueueRequest(
        name="mail", policy=pb.QueuePolicy(ttl=Duration(seconds=60), priority_weights={9: 5})
    )
    made = (await facade.admin.CreateQueue(request)).queue
    assert (made.policy.ttl.seconds, dict(made.policy.priority_weights)) == (60, {9: 5})
    assert made.policy.max_retries == 7
    error = await refused(facade.admin.CreateQueue(request), grpc.StatusCode.ALREADY_EXISTS)
    assert reason(error)
    names = [q.name for q in (await facade.admin.ListQueues(pb.ListQueuesRequest())).queues]
    assert names == ["default", "mail"]


async def test_an_update_changes_only_what_its_mask_names(facade: Facade) -> None:
    policy = pb.QueuePolicy(ttl=Duration(seconds=60), max_running=3)
    await facade.admin.CreateQueue(pb.CreateQueueRequest(name="mail", policy=policy))
    request = pb.UpdateQueueRequest(
        name="mail",
        policy=pb.QueuePolicy(max_retries=1, max_running=9),
        update_mask=FieldMask(paths=["ttl", "max_retries"]),
    )
    changed = (await facade.admin.UpdateQueue(request)).queue.policy
    assert (changed.max_retries, changed.max_running) == (1, 3)
    assert not changed.HasField("ttl")


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (pb.QueuePolicy(max_retries=1001), "policy.max_retries"),
        (pb.QueuePolicy(ttl=Duration()), "policy.ttl"),
        (pb.QueuePolicy(base_delay=Duration(seconds=-1)), "policy.base_delay"),
        (pb.QueuePolicy(max_running=-1), "policy.max_running"),
    ],
)
async def test_a_bad_policy_is_refused_by_its_field(
    facade: Facade, policy: pb.QueuePolicy, field: str
) -> None:
    call = facade.admin.CreateQueue(pb.CreateQueueRequest(name="mail", policy=policy))
    assert bad_fields(await refused(call, grpc.StatusCode.INVALID_ARGUMENT)) == [field]


async def test_a_queue_pauses_and_resumes(facade: Facade) -> None:
    paused = await facade.admin.PauseQueue(pb.PauseQueueRequest(name="default"))
    resumed = await facade.admin.ResumeQueue(pb.ResumeQueueRequest(name="default"))
    assert (paused.queue.paused, resumed.queue.paused) == (True, False)


async def test_a_queue_with_live_jobs_is_deleted_only_by_force(facade: Facade) -> None:
    await facade.admin.CreateQueue(pb.CreateQueueRequest(name="mail"))
    job_id = await facade.submit("mail")
    plain = facade.admin.DeleteQueue(pb.DeleteQueueRequest(name="mail"))
    await refused(plain, grpc.StatusCode.FAILED_PRECONDITION)
    await facade.admin.DeleteQueue(pb.DeleteQueueRequest(name="mail", force=True))
    await refused(facade.admin.GetQueue(pb.GetQueueRequest(name="mail")), grpc.StatusCode.NOT_FOUND)
    assert (await facade.get(job_id)).reason == "CANCELLED"


async def test_a_deletion_counts_the_jobs_of_its_queue_whoever_cancels_them(
    facade: Facade,
) -> None:
    counts = {"few": 3, "many": 2_000}
    for queue, count in counts.items():
        await facade.admin.CreateQueue(pb.CreateQueueRequest(name=queue))
        jobs = [JobSpec(queue=queue)] * count
        await facade.jobs.SubmitJobs(job_pb.SubmitJobsRequest(jobs=jobs))
    deleting = [
        facade.admin.DeleteQueue(pb.DeleteQueueRequest(name=queue, force=True)) for queue in counts
    ]
    assert [answer.cancelled_count for answer in await asyncio.gather(*deleting)] == [3, 2_000]


async def test_tables_that_cannot_be_read_leave_the_state_of_the_rest(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    async with conn.transaction():
        await conn.execute("LOCK TABLE jobqueue.workers IN ACCESS EXCLUSIVE MODE")
        status = await facade.admin.GetSystemStatus(pb.GetSystemStatusRequest())
    states = {part.name: part.state for part in status.components}
    assert (states["postgresql"], states["announcer"]) == ("degraded", "ok")


async def test_an_unknown_queue_or_worker_is_not_found(facade: Facade) -> None:
    admin = facade.admin
    code = grpc.StatusCode.NOT_FOUND
    queue_calls: list[Awaitable[object]] = [
        admin.GetQueue(pb.GetQueueRequest(name="none")),
        admin.PauseQueue(pb.PauseQueueRequest(name="none")),
        admin.DeleteQueue(pb.DeleteQueueRequest(name="none")),
        admin.GetQueueStats(pb.GetQueueStatsRequest(queue="none")),
    ]
    worker_calls: list[Awaitable[object]] = [
        admin.DrainWorker(pb.DrainWorkerRequest(worker_id="none")),
        admin.ShutdownWorker(pb.ShutdownWorkerRequest(worker_id="none")),
    ]
    for call in queue_calls:
        assert reason(await refused(call, code)) == "QUEUE_NOT_FOUND"
    for call in worker_calls:
        assert reason(await refused(call, code)) == "WORKER_NOT_FOUND"


async def test_figures_count_the_jobs_of_a_queue(facade: Facade) -> None:
    for _ in range(3):
        await facade.submit()
    answer = await facade.admin.GetQueueStats(pb.GetQueueStatsRequest(queue="default"))
    (stats,) = answer.stats
    assert [c.count for c in stats.depth] == [3, 0, 0, 0, 0, 0]
    assert stats.window.seconds == 3600


async def test_the_status_names_every_part(facade: Facade) -> None:
    status = await facade.admin.GetSystemStatus(pb.GetSystemStatusRequest())
    parts = {part.name: part.state for part in status.components}
    assert (parts["postgresql"], parts["redis"], parts["kafka"]) == ("ok", "off", "off")
    assert parts["reaper-expired"] == parts["scheduler-promotion"] == "ok"
    assert [stats.queue for stats in status.queues] == ["default"]


async def test_the_version_is_told(facade: Facade) -> None:
    answer = await facade.admin.GetVersion(pb.GetVersionRequest())
    assert answer.version.count(".") == 2
    assert answer.commit
