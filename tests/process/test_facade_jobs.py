"""JobService, called over the wire on a real server and database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import asyncpg
import grpc
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobqueue.client import AsyncClient
from jobqueue.errors import InvalidArgument
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as pb
from tests.support.facade import Facade, bad_fields, reason, serving
from tests.support.waiting import HANG_S, eventually

UNKNOWN = "00000000-0000-4000-8000-000000000000"
MIB = 1024 * 1024
PUT_OFF = """
    INSERT INTO jobqueue.job_events (job, queue_id, seq, from_status, to_status, reason, attempt)
    SELECT e.job, e.queue_id, s,
           (CASE s % 3 WHEN 1 THEN 'FAILED' WHEN 2 THEN 'PENDING' ELSE 'ASSIGNED' END)
               ::jobqueue.job_state,
           (CASE s % 3 WHEN 1 THEN 'PENDING' WHEN 2 THEN 'ASSIGNED' ELSE 'FAILED' END)
               ::jobqueue.job_state, 'RETRY_LATER', 0
    FROM jobqueue.job_events e, generate_series(2, $1::int) s ORDER BY s
"""
"""The job was put off again and again, and has so many events."""


@pytest_asyncio.fixture
async def facade(database: str) -> AsyncIterator[Facade]:
    async with serving(database) as facade:
        yield facade


async def refused(call: Awaitable[object], code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is code
    return caught.value


async def test_a_submitted_job_is_found_as_it_was_sent(facade: Facade) -> None:
    job_id = await facade.submit(
        payload=b"\x00\xff", type="send", priority=9, max_retries=0, labels={"a": "b"}, tenant="t"
    )
    job = await facade.get(job_id)
    assert (job.payload, job.type, job.priority, job.max_retries) == (b"\x00\xff", "send", 9, 0)
    assert (dict(job.labels), job.tenant, job.reason) == ({"a": "b"}, "t", "SUBMITTED")
    assert job.status == job_pb2.JOB_STATUS_PENDING


async def test_what_a_job_does_not_say_is_the_queues(facade: Facade) -> None:
    job = await facade.get(await facade.submit())
    assert job.max_retries == 3
    assert not job.HasField("ttl")
    assert not job.HasField("type")


async def test_a_delay_or_an_instant_is_a_pending_job_with_not_before(facade: Facade) -> None:
    later = Timestamp(seconds=4_000_000_000)
    delayed = await facade.get(await facade.submit(delay=Duration(seconds=60)))
    dated = await facade.get(await facade.submit(not_before=Timestamp(seconds=1_850_000_000)))
    assert delayed.status == dated.status == job_pb2.JOB_STATUS_PENDING
    assert 59 < (delayed.not_before.ToDatetime() - delayed.created_at.ToDatetime()).seconds <= 60
    assert dated.not_before.seconds == 1_850_000_000
    error = await refused(facade.submit(not_before=later), grpc.StatusCode.INVALID_ARGUMENT)
    assert bad_fields(error) == ["job.not_before"]


async def test_an_unknown_queue_is_not_found(facade: Facade) -> None:
    error = await refused(facade.submit("nowhere"), grpc.StatusCode.NOT_FOUND)
    assert reason(error) == "QUEUE_NOT_FOUND"


async def test_every_bad_field_is_named_at_once(facade: Facade) -> None:
    call = facade.submit(queue="", priority=10, ttl=Duration(seconds=-1))
    error = await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
    assert bad_fields(error) == ["job.queue", "job.priority", "job.ttl"]


async def test_a_payload_at_the_limit_is_stored_and_one_byte_more_is_refused(
    facade: Facade,
) -> None:
    job = await facade.get(await facade.submit(payload=b"x" * MIB))
    assert len(job.payload) == MIB
    call = facade.submit(payload=b"x" * (MIB + 1))
    error = await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
    assert bad_fields(error) == ["job.payload"]


async def test_a_message_over_the_limit_exhausts_a_resource(facade: Facade) -> None:
    batch = pb.SubmitJobsRequest(jobs=[job_pb2.JobSpec(queue="default", payload=b"x" * 37 * MIB)])
    await refused(facade.jobs.SubmitJobs(batch), grpc.StatusCode.RESOURCE_EXHAUSTED)
    page = await facade.jobs.ListJobs(pb.ListJobsRequest())
    assert list(page.jobs) == []


async def test_repeating_a_named_call_gives_the_same_job(facade: Facade) -> None:
    request = pb.SubmitJobRequest(job=job_pb2.JobSpec(queue="default"), request_id="r" * 16)
    first = await facade.jobs.SubmitJob(request)
    again = await facade.jobs.SubmitJob(request)
    assert first.job_id == again.job_id
    page = await facade.jobs.ListJobs(pb.ListJobsRequest())
    assert [job.job_id for job in page.jobs] == [first.job_id]


async def test_a_known_key_gives_the_existing_job_and_other_content_is_refused(
    facade: Facade,
) -> None:
    spec = job_pb2.JobSpec(queue="default", payload=b"a", idempotency_key="k")
    first = await facade.jobs.SubmitJob(pb.SubmitJobRequest(job=spec))
    again = await facade.jobs.SubmitJob(pb.SubmitJobRequest(job=spec))
    assert (first.existing, again.existing) == (False, True)
    assert first.job_id == again.job_id
    call = facade.submit(payload=b"b", idempotency_key="k")
    await refused(call, grpc.StatusCode.ALREADY_EXISTS)


async def test_a_batch_is_stored_in_order(facade: Facade) -> None:
    specs = [job_pb2.JobSpec(queue="default", payload=b"%d" % i) for i in range(300)]
    made = await facade.jobs.SubmitJobs(pb.SubmitJobsRequest(jobs=specs))
    assert list(made.existing) == [False] * 300
    assert (await facade.get(made.job_ids[250])).payload == b"250"


async def test_a_batch_with_one_bad_item_stores_nothing_and_names_it(facade: Facade) -> None:
    good = job_pb2.JobSpec(queue="default")
    unknown = pb.SubmitJobsRequest(jobs=[good, good, job_pb2.JobSpec(queue="nowhere")])
    error = await refused(facade.jobs.SubmitJobs(unknown), grpc.StatusCode.NOT_FOUND)
    assert "jobs[2]" in str(error.details())
    invalid = pb.SubmitJobsRequest(jobs=[good, job_pb2.JobSpec(queue="default", priority=11)])
    error = await refused(facade.jobs.SubmitJobs(invalid), grpc.StatusCode.INVALID_ARGUMENT)
    assert bad_fields(error) == ["jobs[1].priority"]
    page = await facade.jobs.ListJobs(pb.ListJobsRequest())
    assert list(page.jobs) == []


async def test_one_callers_bad_queue_fails_no_other_joined_caller(facade: Facade) -> None:
    calls = [facade.submit("nowhere" if i % 10 == 3 else "default") for i in range(100)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    failed = [i for i, answer in enumerate(answers) if isinstance(answer, grpc.RpcError)]
    assert failed == [i for i in range(100) if i % 10 == 3]
    assert len({answer for answer in answers if isinstance(answer, str)}) == 90


async def test_a_cancelled_caller_takes_no_joined_submission_with_it(facade: Facade) -> None:
    request = pb.SubmitJobRequest(job=job_pb2.JobSpec(queue="default"))
    calls = [facade.jobs.SubmitJob(request) for _ in range(60)]
    for call in calls[::2]:
        call.cancel()
    kept = await asyncio.gather(*calls[1::2])
    assert len({answer.job_id for answer in kept}) == 30
    for answer in kept:
        assert (await facade.get(answer.job_id)).reason == "SUBMITTED"


async def test_pages_never_skip_or_repeat_while_jobs_arrive(facade: Facade) -> None:
    old = [await facade.submit() for _ in range(23)]
    seen: list[str] = []
    token = ""
    for _ in range(5):
        page = await facade.jobs.ListJobs(pb.ListJobsRequest(page_size=5, page_token=token))
        seen += [job.job_id for job in page.jobs]
        token = page.next_page_token
        await facade.submit()
    assert seen == old[::-1]
    assert token == ""


async def test_a_list_is_narrowed_by_queue_type_and_status(facade: Facade) -> None:
    sent = await facade.submit(type="send", payload=b"secret")
    await facade.submit(type="other")
    pending = pb.ListJobsRequest(queue="default", type="send", statuses=["JOB_STATUS_PENDING"])
    page = await facade.jobs.ListJobs(pending)
    assert [(job.job_id, job.payload) for job in page.jobs] == [(sent, b"")]
    for statuses in ([job_pb2.JOB_STATUS_DONE], [job_pb2.JOB_STATUS_UNSPECIFIED]):
        page = await facade.jobs.ListJobs(pb.ListJobsRequest(statuses=statuses))
        assert list(page.jobs) == []


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.ListJobsRequest(page_size=-1), "page_size"),
        (pb.ListJobsRequest(page_token="garbage"), "page_token"),
        (pb.ListJobsRequest(queue="a b"), "queue"),
    ],
)
async def test_a_bad_page_is_refused_by_its_field(
    facade: Facade, request_: pb.ListJobsRequest, field: str
) -> None:
    error = await refused(facade.jobs.ListJobs(request_), grpc.StatusCode.INVALID_ARGUMENT)
    assert bad_fields(error) == [field]


async def test_cancel_retry_and_delete_follow_the_state(facade: Facade) -> None:
    job_id = await facade.submit()
    cancel = pb.CancelJobRequest(job_id=job_id)
    delete, retry = pb.DeleteJobRequest(job_id=job_id), pb.RetryJobRequest(job_id=job_id)
    await refused(facade.jobs.RetryJob(retry), grpc.StatusCode.FAILED_PRECONDITION)
    await refused(facade.jobs.DeleteJob(delete), grpc.StatusCode.FAILED_PRECONDITION)
    answer = await facade.jobs.CancelJob(cancel)
    assert answer.outcome == pb.CancelJobResponse.OUTCOME_CANCELLED
    await refused(facade.jobs.CancelJob(cancel), grpc.StatusCode.FAILED_PRECONDITION)
    revived = await facade.jobs.RetryJob(retry)
    assert revived.job.status == job_pb2.JOB_STATUS_PENDING
    await facade.jobs.CancelJob(cancel)
    await facade.jobs.DeleteJob(delete)
    await refused(facade.get(job_id), grpc.StatusCode.NOT_FOUND)


async def test_the_events_of_a_job_are_numbered_without_gaps(facade: Facade) -> None:
    job_id = await facade.submit()
    await facade.jobs.CancelJob(pb.CancelJobRequest(job_id=job_id))
    await facade.jobs.RetryJob(pb.RetryJobRequest(job_id=job_id))
    events = (await facade.jobs.ListJobEvents(pb.ListJobEventsRequest(job_id=job_id))).events
    assert [(e.sequence, e.type, e.reason) for e in events] == [
        (1, "job.submitted", "SUBMITTED"),
        (2, "job.dead-lettered", "CANCELLED"),
        (3, "job.revived", "OPERATOR_RETRY"),
    ]


async def test_the_events_of_a_job_come_in_pages_and_whoever_knows_none_gets_the_first(
    facade: Facade, conn: asyncpg.Connection
) -> None:
    job_id = await facade.submit()
    await conn.execute(PUT_OFF, 2_500)
    request = pb.ListJobEventsRequest(job_id=job_id)
    first = await facade.jobs.ListJobEvents(request)
    assert [event.sequence for event in first.events] == list(range(1, 1_001))
    assert first.next_page_token
    async with AsyncClient(f"127.0.0.1:{facade.port}") as client:
        events = await client.events(job_id)
        with pytest.raises(InvalidArgument, match="page_token"):
            await client.events_page(job_id, page_token="none")
    assert [event.sequence for event in events] == list(range(1, 2_501))
    request.page_token = str(events[-1].sequence)
    assert await facade.jobs.ListJobEvents(request) == pb.ListJobEventsResponse()


async def test_an_unknown_job_is_not_found_and_a_malformed_id_is_bad(facade: Facade) -> None:
    jobs = facade.jobs
    for job_id, code in (
        (UNKNOWN, grpc.StatusCode.NOT_FOUND),
        ("nonsense", grpc.StatusCode.INVALID_ARGUMENT),
    ):
        await refused(jobs.GetJob(pb.GetJobRequest(job_id=job_id)), code)
        await refused(jobs.ListJobEvents(pb.ListJobEventsRequest(job_id=job_id)), code)
        await refused(jobs.CancelJob(pb.CancelJobRequest(job_id=job_id)), code)
        await refused(jobs.RetryJob(pb.RetryJobRequest(job_id=job_id)), code)
        await refused(jobs.DeleteJob(pb.DeleteJobRequest(job_id=job_id)), code)
        await refused(jobs.WatchJob(pb.WatchJobRequest(job_id=job_id)).read(), code)


async def test_a_watch_sends_the_job_now_and_after_each_change_until_it_is_terminal(
    facade: Facade,
) -> None:
    job_id = await facade.submit()
    seen: list[int] = []

    async def watch() -> None:
        async for answer in facade.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id)):
            seen.append(answer.job.status)  # noqa: PERF401 - seen while it grows

    watching = asyncio.create_task(watch())

    async def begun() -> bool:
        return bool(seen)

    await eventually(begun)
    await facade.jobs.CancelJob(pb.CancelJobRequest(job_id=job_id))
    async with asyncio.timeout(HANG_S):
        await watching
    assert seen == [job_pb2.JOB_STATUS_PENDING, job_pb2.JOB_STATUS_DEAD_LETTERED]
