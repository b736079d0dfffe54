"""What is rare and right passes the checker; what it says of a fault is said of that fault."""

import pytest

from tests.chaos.checker import check
from tests.chaos.history import History, Published
from tests.chaos.spoils import (
    Spoil,
    both,
    event,
    kafka,
    more_events,
    moved,
    no_event,
    no_row,
    no_run,
    one_more_call,
    one_more_run,
    row,
    run,
)
from tests.chaos.stories import good, rare

SAID: dict[str, Spoil] = {
    "events or runs of a job that has no row": no_row("plain"),
    "2 outcomes in one life": more_events("plain", ("DONE", "COMPLETED", 101)),
    "DEAD_LETTERED after DONE": more_events("plain", ("DEAD_LETTERED", "CANCELLED", None)),
    "token None was claimed after 201": event("failing", 6, token=None),
    "sequence 4 is from ASSIGNED, the job was RUNNING": event("plain", 4, from_status="ASSIGNED"),
    "sequence 4 is ASSIGNED to DONE": event("plain", 4, from_status="ASSIGNED"),
    "claimed after 3 crashes in a row": both(
        event("killer", 13, to_status="PENDING", reason="RETRY_DUE"),
        more_events("killer", ("ASSIGNED", "CLAIMED", 590)),
    ),
    "1 attempts were charged, 0 are allowed": row("failing", max_retries=-1),
    "claimed 3.900 s before it was due": row("delayed", not_before=9.0),
    "sequence 4 is from RUNNING, the job was ASSIGNED": no_event("plain", 3),
    "attempt 1 ran 2 times, 1 starts are on record": one_more_run("failing", 1, "n", 0.5, 0.6),
    "is the answer to ref-second and was submitted as ref-first": one_more_call(
        "ref-second", "first"
    ),
    "attempt 1 ended by HANDLER_FAILED and never ran": no_run("spent"),
    "attempt 2 completed and never ran to its end": both(
        run("failing", 1, returned=True), run("failing", 2, returned=False)
    ),
    "event 102 comes after event 102": event("plain", 4, eid=102),
    "it is RUNNING at the end": both(no_event("first", 4), row("first", status="RUNNING", seq=3)),
    "event 100 is not in Kafka": kafka(lambda p: p[1:]),
    "event 9999 is in Kafka and not on record": kafka(
        lambda p: [*p, Published(9_999, "plain", 4, "DONE")]
    ),
}
LIVES_ON = ["HANDLER_FAILED", "TIMED_OUT", "RETRY_LATER", "REFUSED", "CANCELLED"]


def said(history: History) -> list[str]:
    return [violation.seen for violation in check(history)]


def test_what_is_rare_and_right_passes() -> None:
    assert check(rare()) == []


@pytest.mark.parametrize(("words", "spoil"), SAID.items(), ids=list(SAID))
def test_a_fault_is_called_by_its_name(words: str, spoil: Spoil) -> None:
    assert words in said(spoil(good()))


def test_a_call_with_a_known_key_may_go_unanswered() -> None:
    assert check(one_more_call("unheard", None, "key")(good())) == []


def test_what_has_no_row_is_told_whatever_its_events_say() -> None:
    cancelled = both(event("spent", 4, reason="CANCELLED"), event("spent", 5, reason="CANCELLED"))
    gone = both(cancelled, run("spent", 1, last_seen_at=9.0), no_row("spent"))
    assert "events or runs of a job that has no row" in said(gone(good()))


@pytest.mark.parametrize("reason", LIVES_ON)
def test_an_attempt_may_not_outlive_any_end_that_was_reported(reason: str) -> None:
    lives_on = both(event("plain", 4, reason=reason), run("plain", 1, last_seen_at=9.0))
    assert f"attempt 1 was alive 8.600 s after {reason}" in said(lives_on(good()))


def test_who_was_reaped_may_not_outlive_an_end_that_was_reported_before() -> None:
    lives_on = both(row("plain", by_holder=False), run("plain", 1, last_seen_at=9.0))
    assert "attempt 1 was alive 8.600 s after COMPLETED" in said(lives_on(good()))


def test_a_lease_is_taken_back_too_early_at_any_hour() -> None:
    early = moved("unstarted", 3, by_s=-1.0)(rare())
    assert any(words.startswith("the lease of token 101 expired") for words in said(early))
