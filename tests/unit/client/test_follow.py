"""Watching and waiting: news once, outages sat out, time-outs told apart."""

import asyncio
import tracemalloc
from dataclasses import replace
from functools import partial

import grpc
import pytest

from jobqueue import errors
from jobqueue.client import AsyncClient, Client, Job, JobStatus, aio, sync
from jobqueue.client.follow import Follow
from jobqueue.client.messages import job as read_job
from jobqueue.runtime.clock import ManualClock
from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, Failure, FakeService, info, job
from tests.support.waiting import HANG_S

PENDING = read_job(job("PENDING"))
LARGE = 100_000
GONE = Failure(grpc.StatusCode.UNAVAILABLE, "restarting", info("UNAVAILABLE"))


def get(status: str) -> jobs.GetJobResponse:
    return jobs.GetJobResponse(job=job(status))


def change(status: str) -> jobs.WatchJobResponse:
    return jobs.WatchJobResponse(job=job(status))


def statuses(seen: list[Job]) -> list[str]:
    return [str(each.status) for each in seen]


def test_a_job_that_has_ended_needs_no_stream(client: Client, service: FakeService) -> None:
    service.answer("GetJob", get("DONE"))
    assert client.wait(JOB_ID).status is JobStatus.DONE
    assert not service.asked["WatchJob"]


def test_every_change_is_told_once(client: Client, service: FakeService) -> None:
    service.answer("GetJob", get("PENDING"))
    service.answer("WatchJob", [change("PENDING"), change("RUNNING"), change("DONE")])
    assert statuses(list(client.watch(JOB_ID))) == ["PENDING", "RUNNING", "DONE"]


async def test_an_asynchronous_watch_tells_the_same(
    aclient: AsyncClient, service: FakeService
) -> None:
    service.answer("GetJob", get("PENDING"))
    service.answer("WatchJob", [change("PENDING"), change("RUNNING"), change("DONE")])
    seen = [each async for each in aclient.watch(JOB_ID)]
    assert statuses(seen) == ["PENDING", "RUNNING", "DONE"]
    assert (await aclient.wait(JOB_ID)).status is JobStatus.DONE


def test_a_broken_stream_is_opened_anew(client: Client, service: FakeService) -> None:
    service.answer("GetJob", get("PENDING"))
    service.answer("WatchJob", [change("RUNNING"), GONE], [change("RUNNING"), change("DONE")])
    seen = statuses(list(client.watch(JOB_ID)))
    assert seen[-1] == "DONE"
    assert len(service.asked["WatchJob"]) == 2


async def test_without_streams_the_job_is_polled(
    client: Client, aclient: AsyncClient, service: FakeService
) -> None:
    service.answer("GetJob", get("PENDING"), get("PENDING"), get("DONE"))
    assert client.wait(JOB_ID).status is JobStatus.DONE
    service.answer("GetJob", get("PENDING"), get("DONE"))
    assert (await aclient.wait(JOB_ID)).status is JobStatus.DONE


async def test_a_wait_keeps_only_the_last_it_saw_of_a_job(
    client: Client, aclient: AsyncClient, service: FakeService
) -> None:
    changes = [change("RUNNING"), change("PENDING")] * 100 + [change("DONE")]
    for each in changes:
        each.job.payload = bytes(LARGE)
    service.answer("GetJob", get("PENDING"))

    async def waited(job_id: str) -> Job:
        return await asyncio.to_thread(client.wait, job_id)

    for wait in (waited, aclient.wait):
        service.answer("WatchJob", [*changes])
        tracemalloc.start()
        assert (await wait(JOB_ID)).status is JobStatus.DONE
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < len(changes) * LARGE / 4


def test_an_unknown_job_ends_the_wait(client: Client, service: FakeService) -> None:
    service.answer("GetJob", Failure(grpc.StatusCode.NOT_FOUND, "no", info("JOB_NOT_FOUND")))
    with pytest.raises(errors.NotFound):
        client.wait(JOB_ID)


async def test_a_wait_that_takes_too_long_says_so(
    client: Client, aclient: AsyncClient, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()

    def late(_request: object) -> jobs.GetJobResponse:
        clock.advance(HANG_S)
        return get("RUNNING")

    for module in (sync, aio):
        monkeypatch.setattr(module, "Follow", partial(Follow, clock=clock.monotonic))
    service.answer("GetJob", late)
    with pytest.raises(errors.DeadlineExceeded, match=r"still RUNNING after 40 s") as caught:
        client.wait(JOB_ID, timeout_s=HANG_S)
    assert caught.value.reason == "WAIT_TIMEOUT"
    with pytest.raises(errors.DeadlineExceeded, match="still RUNNING"):
        await aclient.wait(JOB_ID, timeout_s=HANG_S)


def test_a_server_that_was_never_there_ends_the_watch() -> None:
    follow = Follow(JOB_ID, None)
    with pytest.raises(errors.Unavailable):
        follow.pause_s(errors.Unavailable("refused"))


def test_an_outage_after_the_first_answer_is_sat_out() -> None:
    follow = Follow(JOB_ID, None)
    follow.is_news(PENDING)
    pauses = [follow.pause_s(errors.Unavailable("refused")) for _ in range(100)]
    assert pauses[0] <= 0.1
    assert 1.6 <= pauses[-1] <= 2.0


def test_an_answer_that_cannot_be_read_ends_the_watch() -> None:
    follow = Follow(JOB_ID, None)
    follow.is_news(PENDING)
    with pytest.raises(errors.Internal):
        follow.pause_s(errors.Internal("newer", reason="UNREADABLE_ANSWER"))


def test_no_call_outlasts_the_wait() -> None:
    now = 100.0
    follow = Follow(JOB_ID, 30.0, clock=lambda: now)
    follow.is_news(PENDING)
    assert (follow.call_s(10.0), follow.stream_s()) == (10.0, 30.0)
    now = 125.0
    assert (follow.call_s(10.0), follow.stream_s()) == (5.0, 5.0)
    now = 130.0
    with pytest.raises(errors.DeadlineExceeded):
        follow.stream_s()


def test_only_a_difference_is_news() -> None:
    follow = Follow(JOB_ID, None)
    assert follow.is_news(PENDING)
    assert not follow.is_news(PENDING)
    assert follow.is_news(replace(PENDING, attempt=1))
    assert not follow.finished()


def test_a_first_answer_that_outlasts_the_wait_is_a_wait_timed_out() -> None:
    now = 100.0
    follow = Follow(JOB_ID, 0.5, clock=lambda: now)
    now = 100.6
    with pytest.raises(errors.DeadlineExceeded) as caught:
        follow.pause_s(errors.DeadlineExceeded("no answer"))
    assert caught.value.reason == "WAIT_TIMEOUT"
