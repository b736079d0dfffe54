"""What a worker sends is what the server reads, and the other way round."""

import json
from uuid import uuid4

import pytest

from jobqueue.domain.lease import Lease, LeasedJob, Renewal
from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import (
    Cancelled,
    Completed,
    Expired,
    Failed,
    Outcome,
    Postponed,
    Refused,
    Released,
    Unhandled,
)
from jobqueue.domain.state import Reason
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.errors import InvalidArgument
from jobqueue.remote import messages
from jobqueue.remote.keeper_process import read_route, source_of
from jobqueue.rpc import convert_worker as server
from jobqueue.transport import Route, Tls
from jobqueue.v1 import worker_service_pb2 as pb

LEASE = Lease(17, 2**62)
LIMITS = Limits(result_bytes=4, error_bytes=16)
OUTCOMES: list[Outcome] = [
    Completed(),
    Completed(b""),
    Completed(b"\x00\xff", truncated=True),
    Failed("broken"),
    Failed("slow", Reason.TIMED_OUT),
    Postponed(0.0, "now"),
    Postponed(7.5, "later"),
    Refused("never"),
    Released("ending"),
    Unhandled("who"),
    Cancelled("as asked"),
]


def read(*results: pb.Result) -> dict[Lease, Outcome]:
    return server.read_results(results, LIMITS)


def bad_fields(caught: pytest.ExceptionInfo[InvalidArgument]) -> list[str]:
    return [violation.field for violation in caught.value.violations]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_an_outcome_arrives_as_it_was_reported(outcome: Outcome) -> None:
    assert read(messages.result_message(LEASE, outcome)) == {LEASE: outcome}


def test_a_delay_that_no_message_can_hold_is_bounded() -> None:
    endless = messages.result_message(LEASE, Postponed(float("inf")))
    (outcome,) = server.read_results([endless], Limits()).values()
    assert isinstance(outcome, Postponed)
    assert outcome.delay_s == Limits().delay_s


def test_what_only_the_reaper_says_is_not_reported() -> None:
    with pytest.raises(ValueError, match="Expired"):
        messages.result_message(LEASE, Expired())


def test_long_results_and_texts_that_cannot_be_stored_are_made_to_fit() -> None:
    first = messages.result_message(LEASE, Completed(b"12345"))
    second = messages.result_message(Lease(2, 2), Failed("a\x00" + 30 * "b"))
    completed, failed = read(first, second).values()
    assert completed == Completed(b"1234", truncated=True)
    assert isinstance(failed, Failed)
    assert "\x00" not in failed.error
    assert len(failed.error.encode()) <= LIMITS.error_bytes


def test_of_two_outcomes_for_one_lease_the_first_counts() -> None:
    reports = [messages.result_message(LEASE, outcome) for outcome in (Refused("a"), Completed())]
    assert read(*reports) == {LEASE: Refused("a")}


@pytest.mark.parametrize(
    ("result", "field"),
    [
        (pb.Result(lease="1-1"), "results[0].outcome"),
        (pb.Result(lease="1-1", outcome="OUTCOME_RETRY_LATER"), "results[0].delay"),
        (pb.Result(lease="x", outcome="OUTCOME_DONE"), "results[0].lease"),
        (
            pb.Result(lease="1-1", outcome="OUTCOME_RETRY_LATER", delay={"seconds": -1}),
            "results[0].delay",
        ),
    ],
)
def test_a_report_that_is_none_is_refused_by_its_field(result: pb.Result, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(result)
    assert bad_fields(caught) == [field]


@pytest.mark.parametrize("text", ["", "1", "1-", "-1-1", "1-1-1", "1-x", "1-" + 20 * "9", "9" * 19])
def test_a_text_that_names_no_lease_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        server.read_leases("leases", ["1-1", text])
    assert bad_fields(caught) == ["leases[1]"]


def test_a_lease_that_no_database_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="not a lease"):
        Lease.parse(f"1-{2**63}")
    assert Lease.parse(str(LEASE)) == LEASE


def test_more_leases_than_a_worker_can_hold_are_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        server.read_leases("held", ["1-1"] * 20_001)
    assert bad_fields(caught) == ["held"]


def test_progress_outside_its_range_is_refused() -> None:
    words = [pb.Progress(lease="1-1", percent=101, message="a\x00")]
    with pytest.raises(InvalidArgument) as caught:
        server.read_progress(words)
    assert bad_fields(caught) == ["progress[0].percent", "progress[0].message"]


def test_a_job_arrives_with_all_that_running_it_needs() -> None:
    sent = LeasedJob(
        lease=LEASE,
        job_id=uuid4(),
        queue="q",
        type=None,
        payload=b"\x00",
        priority=9,
        attempt=3,
        running=False,
        max_retries=5,
        timeout_s=1.5,
        labels={"k": "v"},
        trace_context={"traceparent": "00"},
    )
    assert messages.leased_job(server.job_message(sent)) == sent


def test_facts_arrive_with_each_name_once() -> None:
    facts = WorkerFacts("w", "host", 7, ("a", "b", "a"), ("t",), 4, "remote", "1", 2)
    heard = server.read_facts(messages.register_message(facts))
    assert heard == WorkerFacts("w", "host", 7, ("a", "b"), ("t",), 4, "remote", "1", 2)


# Only a worker on the database is ever told to yield.
@pytest.mark.parametrize("command", [c for c in WorkerCommand if c is not WorkerCommand.YIELD])
def test_a_heartbeat_is_answered_with_all_a_worker_must_hear(command: WorkerCommand) -> None:
    sent = [
        Renewal(Lease(1, 1), "renewed", cancel_requested=True),
        Renewal(Lease(2, 2), "busy", cancel_requested=False),
        Renewal(Lease(3, 3), "lost", cancel_requested=False),
    ]
    answer = server.heartbeat_message(command, sent, [Lease(1, 1), Lease(1, 1)])
    assert messages.renewals(answer) == sent
    assert messages.command(answer) is command
    assert list(answer.cancelled) == ["1-1"]


def test_a_newer_servers_command_is_none_to_an_older_worker() -> None:
    assert messages.command(pb.HeartbeatResponse(command=9)) is WorkerCommand.NONE  # type: ignore[arg-type]


@pytest.mark.parametrize("tls", [None, Tls(ca="ca.pem"), Tls("ca.pem", "c.pem", "k.pem")])
def test_a_keeper_goes_the_same_way_as_its_worker(tls: Tls | None) -> None:
    route = Route("h:1", 2.5, tls, "a-key")
    assert read_route(source_of(route)) == route
    assert json.loads(source_of(route))["address"] == "h:1"
