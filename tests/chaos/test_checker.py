"""The checker lets a good history pass and finds what is wrong with each of these."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.history import History, Published, Stop, Tale
from tests.chaos.rules_of_a_job import OF_ONE_JOB
from tests.chaos.rules_of_the_whole import OF_ALL
from tests.chaos.spoils import (
    Spoil,
    alive,
    both,
    call,
    event,
    kafka,
    more_events,
    moved,
    no_event,
    no_events,
    no_row,
    no_run,
    one_more_call,
    one_more_row,
    one_more_run,
    renewed,
    row,
    run,
    stopped,
)
from tests.chaos.stories import good

REVIVED = (("PENDING", "OPERATOR_RETRY", None), ("ASSIGNED", "CLAIMED", 990))
REFUSED_AGAIN = ("FAILED", "REFUSED", 990)
UNASKED = (
    ("PENDING", "RETRY_DUE", None),
    ("ASSIGNED", "CLAIMED", 690),
    ("RUNNING", "STARTED", 690),
    ("DONE", "COMPLETED", 690),
)

PLANTED: dict[str, tuple[str, Spoil]] = {
    # Submissions.
    "an accepted job is gone": ("I1", no_row("plain")),
    "an accepted job was never there": ("I1", one_more_call("lost", "nowhere")),
    "a call made two jobs": ("I1", one_more_row("first")),
    "a job that nobody submitted": ("I1", one_more_row("first", ref="whose")),
    "an answer names the job of another call": ("I1", one_more_call("ref-second", "first")),
    "a job without its submission": ("I1", no_event("plain", 1)),
    "a job without any event": ("I1", no_events("plain")),
    "a call that was not answered made two jobs": (
        "I1",
        both(one_more_row("first", ref="unknown"), row("second", ref="unknown")),
    ),
    "one key, two jobs": ("I13", one_more_row("first", key="key", ref="again")),
    "one key, two answers": ("I13", one_more_call("again-2", "first", "key")),
    # Ends.
    "a job is left RUNNING": (
        "I2",
        both(no_event("plain", 4), row("plain", status="RUNNING", seq=3)),
    ),
    "a job is left PENDING": (
        "I2",
        both(no_event("late", 2), row("late", status="PENDING", seq=1)),
    ),
    "done, then dead": ("I3", more_events("plain", ("DEAD_LETTERED", "CANCELLED", None))),
    "done twice": ("I3", more_events("plain", ("DONE", "COMPLETED", 101))),
    "a late failure revives a done job": (
        "I3",
        more_events("plain", ("FAILED", "HANDLER_FAILED", 101), ("PENDING", "RETRY_DUE", None)),
    ),
    "dead, and started without an operator": (
        "I3",
        more_events("late", ("ASSIGNED", "CLAIMED", 690), ("RUNNING", "STARTED", 690)),
    ),
    "dead, then due again and done": ("I3", more_events("late", *UNASKED)),
    # Leases.
    "a token is used again": ("I4", event("failing", 6, token=201)),
    "a token is smaller than the one before": ("I4", event("failing", 6, token=7)),
    "claimed while another holds it": (
        "I4",
        both(no_event("failing", 4), no_event("failing", 5)),
    ),
    "two leases overlap": ("I4", moved("failing", 6, by_s=-1.0)),
    "claimed again after an end for good": ("I4", event("failing", 4, reason="REFUSED")),
    "a lease is taken back too early": ("I4", moved("crashed", 4, by_s=-1.0)),
    "a lease is taken back too early after its renewal": ("I4", renewed("crashed", 0.1)),
    "a lease is taken back too early after its start": ("I4", moved("crashed", 3, by_s=1.0)),
    # The way.
    "an illegal move": ("I5", event("plain", 4, from_status="ASSIGNED")),
    "a move from where the job was not": ("I5", event("failing", 5, from_status="DONE")),
    "the row is not where its events lead": ("I5", row("plain", status="DEAD_LETTERED")),
    "the row counts another attempt": ("I5", row("failing", attempt=1)),
    "the row has another sequence": ("I5", row("failing", seq=7)),
    "done for a failure": ("I5", event("plain", 4, reason="HANDLER_FAILED")),
    "dead because it was due": ("I5", event("late", 2, reason="RETRY_DUE")),
    "dead because it was claimed": ("I5", event("spent", 5, reason="CLAIMED")),
    "handed back, then due": ("I5", event("crashed", 9, reason="RETRY_DUE")),
    "refused, then exhausted": ("I5", event("refused", 5, reason="RETRIES_EXHAUSTED")),
    "asked for another time, then handed back": ("I5", event("patient", 9, reason="RELEASED")),
    # What it costs.
    "a retry was not charged": ("I6", row("failing", retries=0)),
    "a hand-back was charged": ("I6", row("crashed", retries=2)),
    "one attempt too many": ("I6", row("failing", max_retries=-1)),
    "claimed after the crash limit": (
        "I6",
        both(
            event("killer", 13, to_status="PENDING", reason="RETRY_DUE"),
            more_events("killer", ("ASSIGNED", "CLAIMED", 590)),
        ),
    ),
    "stopped before the crash limit": (
        "I6",
        event("spent", 5, reason="CRASH_LIMIT"),
    ),
    "stopped before the crash limit in an earlier life": (
        "I6",
        both(event("spent", 5, reason="CRASH_LIMIT"), more_events("spent", *REVIVED)),
    ),
    "another number of retries than was sent": ("I6", row("refused", max_retries=4)),
    "another number of retries than the queue's": (
        "I6",
        both(call("ref-refused", max_retries=None), row("refused", max_retries=4)),
    ),
    "exhausted before its retries are": ("I6", row("spent", max_retries=3)),
    "due again though no retry is left": ("I6", row("failing", max_retries=0)),
    # Who ended it.
    "a stale token completes": ("I7", event("failing", 8, token=201)),
    "another worker starts it": ("I7", event("plain", 3, worker="other")),
    "the result is that of a lost attempt": ("I7", row("crashed", result="crashed/1")),
    "a failure of an attempt that was over ends the next one": (
        "I7",
        event("helped", 8, detail="helped/1"),
    ),
    "another time is asked for by an attempt that was over": (
        "I7",
        event("patient", 8, detail="patient/1"),
    ),
    "a failure of an earlier life ends the next one": (
        "I7",
        both(
            more_events("refused", *REVIVED, ("RUNNING", "STARTED", 990), REFUSED_AGAIN),
            event("refused", 8, attempt=1),
            event("refused", 9, attempt=1, detail="refused/1"),
        ),
    ),
    "a refusal that no attempt told of": ("I7", event("refused", 4, detail="")),
    "the result is nobody's": ("I7", row("plain", result="made up")),
    "the result is lost": ("I7", row("plain", result=None)),
    # When.
    "claimed before it is due": ("I9", row("delayed", not_before=9.0)),
    "started after its time to live": ("I8", row("plain", ttl_s=0.1)),
    "started after its time to live, counted from its retry": ("I8", row("helped", ttl_s=0.1)),
    "out of time too early": ("I8", moved("late", 2, by_s=-0.5)),
    "out of time and never had one": ("I8", row("late", ttl_s=None)),
    "out of time though it was started": (
        "I8",
        both(event("refused", 5, reason="TTL_EXPIRED"), row("refused", ttl_s=0.4)),
    ),
    "a charged retry did not wait": ("I9", event("failing", 5, reason="LEASE_EXPIRED")),
    "a charged retry waited too little": ("I9", moved("failing", 5, by_s=-0.08)),
    "a delay was lost": ("I9", row("delayed", not_before=None)),
    "a delay was made up": ("I9", row("plain", not_before=0.05)),
    "a shorter delay was stored": ("I9", row("delayed", not_before=4.9)),
    "a time to live was lost": ("I9", row("delayed", ttl_s=None)),
    "a time to live was made up": ("I9", row("plain", ttl_s=9.0)),
    "a longer time to live was stored": ("I9", row("delayed", ttl_s=2.1)),
    "made before it was sent": ("I9", row("second", created_at=0.5)),
    "made after it was answered": ("I9", row("second", created_at=1.5)),
    # The record.
    "a gap": ("I10", no_event("crashed", 5)),
    "a sequence twice": ("I10", event("plain", 3, seq=2)),
    "time goes back": ("I10", moved("plain", 4, by_s=-0.15)),
    "ids go back": ("I10", event("plain", 4, eid=99)),
    # Kafka.
    "an event is not in Kafka": ("I11", kafka(lambda p: p[1:])),
    "an event was published and rolled back": (
        "I11",
        kafka(lambda p: [*p, Published(9_999, "plain", 4, "DONE")]),
    ),
    "first deliveries out of order": ("I11", kafka(lambda p: [p[1], p[0], *p[2:]])),
    "Kafka tells another state": (
        "I11",
        kafka(lambda p: [replace(p[0], to_status="DONE"), *p[1:]]),
    ),
    # Limits.
    "two held where one may be": ("I14", moved("first", 4, by_s=5.0)),
    # Handlers.
    "an attempt outlives its timeout": (
        "I15",
        both(event("failing", 4, reason="TIMED_OUT"), run("failing", 1, last_seen_at=9.0)),
    ),
    "an attempt lives on though its lease was lost": ("I15", run("crashed", 1, last_seen_at=60.0)),
    "an attempt lives on though another worker stood still": (
        "I15",
        both(run("crashed", 1, last_seen_at=60.0), stopped(Stop("other", 0.0, 60.0))),
    ),
    "an attempt lives on after its worker stood still": (
        "I15",
        both(run("crashed", 1, last_seen_at=60.0), stopped(Stop("w", 0.0, 40.0))),
    ),
    "an attempt lives at the end": ("I15", alive("failing/1")),
    "an attempt that lost its lease lives at the end": ("I15", alive("crashed/1")),
    "an attempt of an earlier life lives at the end": (
        "I15",
        both(more_events("spent", *REVIVED), alive("spent/1")),
    ),
    "a run that is not on record": ("I17", one_more_run("plain", 2, "n", 0.5, 0.6)),
    "one attempt ran twice": ("I17", one_more_run("plain", 1, "n", 0.5, 0.6)),
    "completed and never run": ("I17", no_run("second")),
    "failed and never run": ("I17", no_run("spent")),
    "refused and never run": ("I17", both(event("spent", 4, reason="REFUSED"), no_run("spent"))),
    "completed and cut off": ("I17", run("second", 1, returned=False)),
}


def test_a_good_history_passes() -> None:
    assert check(good()) == []


def test_a_cancelled_job_whose_lease_was_lost_may_run_on() -> None:
    outlived = both(
        event("spent", 4, reason="CANCELLED"),
        event("spent", 5, reason="CANCELLED"),
        run("spent", 1, last_seen_at=9.0),
    )
    assert {v.invariant for v in check(outlived(good()))} == {"I15"}
    assert check(row("spent", by_holder=False)(outlived(good()))) == []


def test_an_attempt_hears_that_its_lease_is_lost_once_its_worker_goes_on() -> None:
    late = both(run("crashed", 1, last_seen_at=60.0), stopped(Stop("w", 0.0, 55.0)))
    assert check(late(good())) == []


def test_a_job_that_an_operator_retried_is_due_at_once() -> None:
    early = both(more_events("late", *REVIVED), row("late", not_before=9_999.0))
    early = both(early, call("ref-late", delay_s=9_999.0))
    assert "I9" not in {v.invariant for v in check(early(good()))}


@pytest.mark.parametrize(("invariant", "spoil"), PLANTED.values(), ids=list(PLANTED))
def test_what_is_wrong_is_found(invariant: str, spoil: Spoil) -> None:
    assert invariant in {violation.invariant for violation in check(spoil(good()))}


@pytest.mark.parametrize("rule", [rule for _, rule in OF_ONE_JOB], ids=lambda r: r.__name__)
def test_each_rule_for_a_job_finds_something(rule: Callable[[Tale, History], Any]) -> None:
    spoiled = [spoil(good()) for _, spoil in PLANTED.values()]
    assert any(list(rule(tale, h)) for h in spoiled for tale in h.by_job().values())


@pytest.mark.parametrize("rule", [rule for _, rule in OF_ALL], ids=lambda r: r.__name__)
def test_each_rule_for_the_whole_finds_something(rule: Callable[[History], Any]) -> None:
    assert any(list(rule(spoil(good()))) for _, spoil in PLANTED.values())


def test_there_are_enough_planted_faults() -> None:
    assert len(PLANTED) >= 30
    assert {name for name, _ in PLANTED.values()} == {name for name, _ in (*OF_ONE_JOB, *OF_ALL)}
