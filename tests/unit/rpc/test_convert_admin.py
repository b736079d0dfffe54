from dataclasses import replace
from datetime import UTC, datetime

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from jobqueue.domain.limits import Limits
from jobqueue.domain.queue import Queue, QueuePolicy, QueueStats
from jobqueue.domain.state import JobStatus
from jobqueue.domain.worker import Worker, WorkerFacts, WorkerStatus
from jobqueue.errors import InvalidArgument
from jobqueue.rpc.convert_admin import (
    queue_message,
    read_change,
    read_name,
    read_new_policy,
    read_window,
    stats_message,
    worker_message,
)
from jobqueue.v1 import admin_service_pb2 as admin

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
FULL = admin.QueuePolicy(
    max_retries=0,
    ttl=Duration(seconds=60),
    base_delay=Duration(),
    max_delay=Duration(seconds=9),
    multiplier=3.0,
    priority_weights={9: 100, 0: 1},
    max_running=4,
)


def change(policy: admin.QueuePolicy, *paths: str) -> dict[str, object]:
    request = admin.UpdateQueueRequest(policy=policy, update_mask=FieldMask(paths=paths))
    return dict(read_change(request).fields)


def test_a_new_queue_is_given_what_was_said() -> None:
    assert read_new_policy(admin.QueuePolicy()).fields == {}
    assert read_new_policy(FULL).fields == {
        "max_retries": 0,
        "ttl_s": 60.0,
        "base_delay_s": 0.0,
        "max_delay_s": 9.0,
        "priority_weights": {9: 100, 0: 1},
        "max_running": 4,
    }


def test_the_mask_names_what_changes() -> None:
    assert change(FULL, "ttl", "max_running") == {"ttl_s": 60.0, "max_running": 4}


def test_a_named_but_absent_field_is_cleared() -> None:
    empty = admin.QueuePolicy()
    assert change(empty, "ttl", "priority_weights") == {"ttl_s": None, "priority_weights": None}


def test_without_a_mask_the_fields_that_are_set_change() -> None:
    assert change(admin.QueuePolicy(max_retries=2)) == {"max_retries": 2}


def test_a_change_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="update_mask: names no field"):
        change(admin.QueuePolicy())


def test_the_multiplier_of_the_server_cannot_be_changed() -> None:
    with pytest.raises(InvalidArgument, match="has no field 'multiplier'"):
        change(FULL, "multiplier")


def test_a_change_of_an_unknown_field_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="update_mask: a policy has no field 'name'"):
        change(FULL, "ttl", "name")


def test_a_bad_time_of_a_policy_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"policy\.max_delay: is not a valid duration"):
        read_new_policy(admin.QueuePolicy(max_delay=Duration(nanos=2 * 10**9)))


@pytest.mark.parametrize("name", ["", "a b", "x" * 129])
def test_a_bad_name_is_refused_by_its_field(name: str) -> None:
    with pytest.raises(InvalidArgument, match="worker_id: "):
        read_name(name, Limits(), "worker_id")


def test_a_window_is_an_hour_unless_said() -> None:
    assert read_window(admin.GetQueueStatsRequest()) == 3600.0
    assert read_window(admin.GetQueueStatsRequest(window=Duration(seconds=604_800))) == 604_800.0


@pytest.mark.parametrize("seconds", [0, -1, 604_801, 2**62])
def test_a_window_beyond_a_week_or_below_zero_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidArgument, match="window: "):
        read_window(admin.GetQueueStatsRequest(window=Duration(seconds=seconds)))


def test_a_queue_is_sent_with_its_whole_policy() -> None:
    policy = QueuePolicy(ttl_s=5.0, priority_weights={9: 2}, max_running=1)
    message = queue_message(Queue("mail", policy, True, NOON, NOON))
    assert {f.name for f, _ in message.ListFields()} == set(admin.Queue.DESCRIPTOR.fields_by_name)
    assert {f.name for f, _ in message.policy.ListFields()} == set(
        admin.QueuePolicy.DESCRIPTOR.fields_by_name
    )
    assert message.policy.base_delay.seconds == 5


def test_figures_name_all_six_statuses_and_leave_out_what_is_unknown() -> None:
    stats = QueueStats("q", NOON, {JobStatus.DONE: 3}, 3, 0, 3600.0, None, None, None, 0, False)
    message = stats_message(stats)
    assert [(c.status, c.count) for c in message.depth] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 3),
        (5, 0),
        (6, 0),
    ]
    assert not message.HasField("error_rate")
    assert not message.HasField("average_processing_time")
    assert not message.HasField("oldest_runnable_age")
    assert not message.HasField("max_running")
    assert stats_message(replace(stats, max_running=4)).max_running == 4


@pytest.mark.parametrize("status", WorkerStatus)
def test_a_worker_is_sent_with_its_status(status: WorkerStatus) -> None:
    facts = WorkerFacts("w", "h", 7, ("q",), ("t",), 4, "direct", "0.1.0")
    message = worker_message(Worker(facts, status, 2, NOON, NOON, -0.25))
    assert {f.name for f, _ in message.ListFields()} == set(admin.Worker.DESCRIPTOR.fields_by_name)
    assert admin.Worker.Status.Name(message.status) == f"STATUS_{status}"
