"""The checker lets a good history pass and finds what is wrong with each of these."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.history import Call, Event, History, Published, Run, Tale
from tests.chaos.rules_of_a_job import OF_ONE_JOB
from tests.chaos.rules_of_the_whole import OF_ALL
from tests.chaos.stories import LEASE_S, good

Spoil = Callable[[History], History]


def event(job: str, seq: int, /, **changes: Any) -> Spoil:
    """Change one event, and what Kafka has of it."""

    def spoil(history: History) -> History:
        changed = [
            replace(e, **changes) if (e.job, e.seq) == (job, seq) else e for e in history.events
        ]
        assert changed != history.events
        return in_kafka_too(replace(history, events=changed))

    return spoil


def moved(job: str, seq: int, by_s: float) -> Spoil:
    def spoil(history: History) -> History:
        (at,) = [e.at for e in history.events if (e.job, e.seq) == (job, seq)]
        return event(job, seq, at=at + by_s)(history)

    return spoil


def no_event(job: str, seq: int) -> Spoil:
    return lambda h: in_kafka_too(
        replace(h, events=[e for e in h.events if (e.job, e.seq) != (job, seq)])
    )


def more_events(job: str, *moves: tuple[str, str, int | None]) -> Spoil:
    """Let the job go on: (status, reason, token) each, and its row with it."""

    def spoil(history: History) -> History:
        told = [e for e in history.events if e.job == job]
        for status, reason, token in moves:
            last = told[-1]
            told.append(
                Event(
                    last.eid + 1,
                    job,
                    last.seq + 1,
                    last.to_status,
                    status,
                    last.at + LEASE_S,
                    reason,
                    last.attempt + (status == "RUNNING"),
                    token,
                    "w" if status in ("ASSIGNED", "RUNNING") else None,
                )
            )
        others = [e for e in history.events if e.job != job]
        starts = sum(e.to_status == "RUNNING" for e in told)
        longer = replace(history, events=others + told)
        end = row(job, status=told[-1].to_status, seq=len(told), attempt=starts)
        return in_kafka_too(end(longer))

    return spoil


def row(job: str, /, **changes: Any) -> Spoil:
    def spoil(history: History) -> History:
        changed = [replace(r, **changes) if r.job == job else r for r in history.rows]
        assert changed != history.rows
        return replace(history, rows=changed)

    return spoil


def no_row(job: str) -> Spoil:
    return lambda h: replace(h, rows=[r for r in h.rows if r.job != job])


def one_more_row(like: str, **changes: Any) -> Spoil:
    def spoil(history: History) -> History:
        (model,) = [r for r in history.rows if r.job == like]
        told = [replace(e, job="twin", eid=e.eid + 9_000) for e in history.events if e.job == like]
        ran = [replace(r, job="twin", nonce="twin") for r in history.runs if r.job == like]
        twin = replace(model, job="twin", result="twin", **changes)
        return in_kafka_too(
            replace(
                history,
                rows=[*history.rows, twin],
                events=[*history.events, *told],
                runs=[*history.runs, *ran],
            )
        )

    return spoil


def one_more_call(*call: Any) -> Spoil:
    return lambda h: replace(h, calls=[*h.calls, Call(*call)])


def run(job: str, attempt: int, /, **changes: Any) -> Spoil:
    def spoil(history: History) -> History:
        changed = [
            replace(r, **changes) if (r.job, r.attempt) == (job, attempt) else r
            for r in history.runs
        ]
        assert changed != history.runs
        return replace(history, runs=changed)

    return spoil


def one_more_run(*run: Any) -> Spoil:
    return lambda h: replace(h, runs=[*h.runs, Run(*run)])


def no_run(job: str) -> Spoil:
    return lambda h: replace(h, runs=[r for r in h.runs if r.job != job])


def alive(nonce: str) -> Spoil:
    return lambda h: replace(h, alive=[nonce])


def kafka(change: Callable[[list[Published]], Sequence[Published]]) -> Spoil:
    return lambda h: replace(h, published=change(list(h.published or ())))


def in_kafka_too(history: History) -> History:
    """Let the relay have sent what is on record, so that only the record is wrong."""
    told = [Published(e.eid, e.job, e.seq, e.to_status) for e in history.events]
    return replace(history, published=told)


def both(*spoils: Spoil) -> Spoil:
    def spoil(history: History) -> History:
        for each in spoils:
            history = each(history)
        return history

    return spoil


REVIVED = (("PENDING", "OPERATOR_RETRY", None), ("ASSIGNED", "CLAIMED", 990))
AGAIN = (("FAILED", "LEASE_EXPIRED", 410), ("PENDING", "RETRY_DUE", None))

PLANTED: dict[str, tuple[str, Spoil]] = {
    # Submissions.
    "an accepted job is gone": ("I1", no_row("plain")),
    "an accepted job was never there": ("I1", one_more_call("lost", "nowhere")),
    "a call made two jobs": ("I1", one_more_row("first")),
    "a job that nobody submitted": ("I1", one_more_row("first", ref="whose")),
    "an answer names the job of another call": ("I1", one_more_call("ref-second", "first")),
    "a job without its submission": ("I1", no_event("plain", 1)),
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
    # The way.
    "an illegal move": ("I5", event("plain", 4, from_status="ASSIGNED")),
    "a move from where the job was not": ("I5", event("failing", 5, from_status="DONE")),
    "the row is not where its events lead": ("I5", row("plain", status="DEAD_LETTERED")),
    "the row counts another attempt": ("I5", row("failing", attempt=1)),
    "the row has another sequence": ("I5", row("failing", seq=7)),
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
    # Who ended it.
    "a stale token completes": ("I7", event("failing", 8, token=201)),
    "another worker starts it": ("I7", event("plain", 3, worker="other")),
    "the result is that of a lost attempt": ("I7", row("crashed", result="crashed/1")),
    "the result is nobody's": ("I7", row("plain", result="made up")),
    # When.
    "claimed before it is due": ("I9", row("delayed", not_before=9.0)),
    "started after its time to live": ("I9", row("plain", ttl_s=0.1)),
    "a charged retry did not wait": ("I9", event("failing", 5, reason="LEASE_EXPIRED")),
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


def test_a_job_that_an_operator_retried_is_due_at_once() -> None:
    early = both(more_events("late", *REVIVED), row("late", not_before=9_999.0))
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
