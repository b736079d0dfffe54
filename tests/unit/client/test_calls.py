"""Requests and answers: what was said goes over the wire, what came back is typed."""

import inspect
import math
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from jobqueue.client import (
    AsyncClient,
    CancelOutcome,
    Client,
    JobFilter,
    JobSpec,
    JobStatus,
    Reason,
    Submitted,
    Version,
    batches,
)
from jobqueue.domain.limits import Limits
from jobqueue.errors import Internal, InvalidArgument
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, FakeService, job

HUGE = 10**400  # more than a float can hold


def test_a_submission_says_only_what_was_said(client: Client, service: FakeService) -> None:
    service.answer("SubmitJob", jobs.SubmitJobResponse(job_id=JOB_ID))
    assert client.submit(JobSpec("emails", b"\x00\xff")) == Submitted(UUID(JOB_ID))
    sent = service.asked["SubmitJob"][0].job
    assert sent == job_pb2.JobSpec(queue="emails", payload=b"\x00\xff")


def test_a_submission_says_everything_that_was_said(client: Client, service: FakeService) -> None:
    service.answer("SubmitJob", jobs.SubmitJobResponse(job_id=JOB_ID, existing=True))
    at = datetime(2030, 1, 31, 18, 0, 0, 5, tzinfo=UTC)
    spec = JobSpec(
        queue="emails",
        payload=b"x",
        type="send",
        priority=9,
        max_retries=0,
        ttl_s=1.5,
        not_before=at,
        timeout_s=0.25,
        idempotency_key="k",
        tenant="t",
        labels={"a": "b"},
        trace_context={"traceparent": "00"},
    )
    assert client.submit(spec).existing
    sent = service.asked["SubmitJob"][0].job
    assert sent.HasField("max_retries")
    assert (sent.max_retries, sent.ttl.seconds, sent.ttl.nanos) == (0, 1, 500_000_000)
    assert sent.not_before.ToDatetime(tzinfo=UTC) == at
    assert (sent.type, sent.priority, sent.idempotency_key, sent.tenant) == ("send", 9, "k", "t")
    assert (dict(sent.labels), dict(sent.trace_context)) == ({"a": "b"}, {"traceparent": "00"})


def test_a_time_that_utc_cannot_express_is_a_fault_of_its_field(client: Client) -> None:
    far = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
    with pytest.raises(InvalidArgument, match=r"job\.not_before"):
        client.submit(JobSpec("emails", b"", not_before=far))


def test_every_submission_names_itself_anew(client: Client, service: FakeService) -> None:
    service.answer("SubmitJob", jobs.SubmitJobResponse(job_id=JOB_ID))
    client.submit(JobSpec("q"))
    client.submit(JobSpec("q"))
    first, second = (request.request_id for request in service.asked["SubmitJob"])
    assert first != second
    assert 16 <= len(first) <= 64


def test_a_batch_is_answered_in_its_order(client: Client, service: FakeService) -> None:
    other = "00000000-0000-4000-8000-000000000001"
    answer = jobs.SubmitJobsResponse(job_ids=[JOB_ID, other], existing=[False, True])
    service.answer("SubmitJobs", answer)
    assert client.submit_many([JobSpec("a"), JobSpec("b")]) == (
        Submitted(UUID(JOB_ID)),
        Submitted(UUID(other), existing=True),
    )


def test_bad_values_cost_no_round_trip(client: Client, service: FakeService) -> None:
    with pytest.raises(InvalidArgument) as caught:
        client.submit_many([JobSpec("ok"), JobSpec("", priority=12)])
    assert [fault.field for fault in caught.value.violations] == [
        "jobs[1].queue",
        "jobs[1].priority",
    ]
    with pytest.raises(InvalidArgument, match="not a UUID"):
        client.get("nope")
    with pytest.raises(InvalidArgument, match="page_size"):
        client.list_page(page_size=1001)
    with pytest.raises(InvalidArgument, match="ttl"):
        client.update_queue("q", ttl_s=float("nan"))
    assert not service.asked


def test_a_job_is_read_whole(client: Client, service: FakeService) -> None:
    sent = job("DONE", result=b"", type="send", reason="COMPLETED", worker_id="w", attempt=2)
    sent.ttl.FromMilliseconds(1500)
    service.answer("GetJob", jobs.GetJobResponse(job=sent))
    found = client.get(UUID(JOB_ID))
    assert (found.status, found.reason, found.attempt) == (JobStatus.DONE, Reason.COMPLETED, 2)
    assert found.created_at == datetime(2026, 1, 31, 18, 0, 0, 123456, tzinfo=UTC)
    assert (found.result, found.ttl_s, found.timeout_s) == (b"", 1.5, None)
    assert (found.finished_at, found.last_error, found.idempotency_key) == (None, None, None)


def test_an_answer_from_a_newer_server_is_an_error_of_ours(
    client: Client, service: FakeService
) -> None:
    service.answer("GetJob", jobs.GetJobResponse(job=job(reason="ABDUCTED")))
    with pytest.raises(Internal, match="newer") as caught:
        client.get(JOB_ID)
    assert caught.value.reason == "UNREADABLE_ANSWER"


def test_a_list_goes_over_all_pages(client: Client, service: FakeService) -> None:
    first = jobs.ListJobsResponse(jobs=[job(), job()], next_page_token="more")
    service.answer("ListJobs", first, jobs.ListJobsResponse(jobs=[job()]))
    wanted = JobFilter(queue="emails", statuses=frozenset({JobStatus.FAILED}))
    assert len(list(client.list(wanted))) == 3
    assert [asked.page_token for asked in service.asked["ListJobs"]] == ["", "more"]
    assert list(service.asked["ListJobs"][1].statuses) == [job_pb2.JOB_STATUS_FAILED]


async def test_an_asynchronous_list_goes_over_all_pages(
    aclient: AsyncClient, service: FakeService
) -> None:
    first = jobs.ListJobsResponse(jobs=[job(), job()], next_page_token="more")
    service.answer("ListJobs", first, jobs.ListJobsResponse(jobs=[job()]))
    assert len([found async for found in aclient.list()]) == 3


def test_the_first_event_comes_from_nowhere(client: Client, service: FakeService) -> None:
    event = job_pb2.JobEvent(
        event_id=7, job_id=JOB_ID, sequence=1, to_status="JOB_STATUS_PENDING", reason="SUBMITTED"
    )
    service.answer("ListJobEvents", jobs.ListJobEventsResponse(events=[event]))
    (found,) = client.events(JOB_ID)
    assert (found.from_status, found.to_status) == (None, JobStatus.PENDING)
    assert found.type == "job.submitted"


async def test_all_events_are_those_of_all_pages(
    client: Client, aclient: AsyncClient, service: FakeService
) -> None:
    def page(request: jobs.ListJobEventsRequest) -> jobs.ListJobEventsResponse:
        event = job_pb2.JobEvent(
            job_id=JOB_ID, to_status="JOB_STATUS_PENDING", reason="SUBMITTED",
            sequence=int(request.page_token or 1),
        )  # fmt: skip
        token = "" if event.sequence == 3 else str(event.sequence + 1)
        return jobs.ListJobEventsResponse(events=[event], next_page_token=token)

    service.answer("ListJobEvents", page)
    for found in (client.events(JOB_ID), await aclient.events(JOB_ID)):
        assert [event.sequence for event in found] == [1, 2, 3]


def test_a_cancel_answers_the_truth(client: Client, service: FakeService) -> None:
    service.answer("CancelJob", jobs.CancelJobResponse(outcome="OUTCOME_CANCEL_REQUESTED"))
    assert client.cancel(JOB_ID, running=True) is CancelOutcome.CANCEL_REQUESTED
    assert service.asked["CancelJob"][0].running


def test_an_update_masks_what_was_said_and_clears_none(
    client: Client, service: FakeService
) -> None:
    service.answer("UpdateQueue", admin.UpdateQueueResponse())
    client.update_queue("emails", ttl_s=None, max_retries=0, priority_weights={9: 100})
    asked = service.asked["UpdateQueue"][0]
    assert list(asked.update_mask.paths) == ["max_retries", "priority_weights", "ttl"]
    assert not asked.policy.HasField("ttl")
    assert asked.policy.HasField("max_retries")
    assert dict(asked.policy.priority_weights) == {9: 100}


def test_a_field_that_no_queue_has_is_a_mistake(client: Client) -> None:
    with pytest.raises(TypeError, match="colour"):
        client.update_queue("emails", colour="red")  # type: ignore[call-arg]


def test_figures_name_all_six_statuses(client: Client, service: FakeService) -> None:
    depth = [admin.StatusCount(status="JOB_STATUS_FAILED", count=3)]
    figures = admin.QueueStats(queue="emails", depth=depth, error_rate=0.0, max_running=4)
    service.answer("GetQueueStats", admin.GetQueueStatsResponse(stats=[figures]))
    (found,) = client.queue_stats()
    assert found.depth == {status: 3 * (status is JobStatus.FAILED) for status in JobStatus}
    assert (found.error_rate, found.average_processing_s) == (0.0, None)
    assert found.max_running == 4


async def test_both_clients_answer_the_same(
    client: Client, aclient: AsyncClient, service: FakeService
) -> None:
    service.answer("GetVersion", admin.GetVersionResponse(version="1.2.3", commit="abc"))
    assert client.version() == await aclient.version() == Version("1.2.3", "abc")


def test_both_clients_offer_the_same() -> None:
    def offered(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(value).parameters)
            for name, value in vars(kind).items()
            if inspect.isfunction(value) and not name.startswith("_")
        }

    assert offered(Client) == offered(AsyncClient)


def test_an_api_key_goes_with_every_call(service: FakeService) -> None:
    service.answer("GetVersion", admin.GetVersionResponse())
    with Client(service.address, api_key="s3cret") as client:
        client.version()
    assert service.metadata["authorization"] == "Bearer s3cret"


def test_batches_keep_to_both_limits_and_to_the_order() -> None:
    by_count = list(batches([JobSpec(f"q{n}") for n in range(5)], Limits(batch_jobs=2)))
    assert [[spec.queue for spec in batch] for batch in by_count] == [
        ["q0", "q1"],
        ["q2", "q3"],
        ["q4"],
    ]
    by_size = batches([JobSpec("q", b"x" * 60)] * 3, Limits(batch_bytes=160))
    assert [len(batch) for batch in by_size] == [2, 1]
    assert list(batches([])) == []


@pytest.mark.parametrize("delay_s", [math.nan, math.inf, HUGE], ids=["nan", "inf", "huge"])
def test_what_cannot_be_sent_is_named_by_batches(delay_s: float) -> None:
    with pytest.raises(InvalidArgument) as caught:
        list(batches([JobSpec("q"), JobSpec("q", delay_s=delay_s)]))
    assert [v.field for v in caught.value.violations] == ["jobs[1].delay"]


@pytest.mark.parametrize("timeout_s", [math.nan, 0, HUGE], ids=["nan", "zero", "huge"])
def test_a_time_that_grpc_cannot_count_is_refused(timeout_s: float) -> None:
    with pytest.raises(InvalidArgument, match="timeout"):
        Client(timeout_s=timeout_s)


def test_a_full_batch_fits_into_one_message(client: Client, service: FakeService) -> None:
    service.answer(
        "SubmitJobs", lambda asked: jobs.SubmitJobsResponse(job_ids=[JOB_ID] * len(asked.jobs))
    )
    labels = {f"{n:03}": "x" * 250 for n in range(32)}
    specs = [JobSpec("q", b"p" * 10_000, labels=labels)] * 2_500
    done = [len(client.submit_many(batch, timeout_s=60)) for batch in batches(specs)]
    assert sum(done) == 2_500
    assert len(done) == 2
