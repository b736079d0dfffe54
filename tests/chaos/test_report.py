"""A run tells what landed by class, and of jobs at fault all that is known of them."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.chaos.checker import check
from tests.chaos.history import History
from tests.chaos.journal import Journal
from tests.chaos.load import Load
from tests.chaos.plan import SEAMS, SHARES, plan
from tests.chaos.report import tell
from tests.chaos.run import EXPECTED, SEEN, Outcome
from tests.chaos.stories import good


def outcome_of(history: History, *, quiet: bool = True) -> Outcome:
    journal = Journal(
        landed=Counter(plan(random.Random(1), 1.0)),
        long_pauses=1,
        struck_at_work=1,
        orderly_ends=1,
    )
    load = Load((), 0, random.Random(1), unanswered=1, repeats=1, doubted=1)
    return Outcome(1.0, history, check(history), journal, load, quiet)


def fails(outcome: Outcome, told: str) -> None:
    """Assert that a run does, and says so."""
    assert not outcome.passed
    assert told in tell(outcome)


def test_a_good_run_passes_and_counts_its_duplicate_starts() -> None:
    outcome = outcome_of(good())
    told = tell(outcome)
    assert outcome.passed
    assert "duplicate starts, each after LEASE_EXPIRED: 3," in told
    assert "F3 SIGSTOP, 29: pause:remote 7, pause:server 6, pause:worker 14" in told
    assert "---" not in told


def test_a_job_at_fault_is_told_with_all_its_events_and_runs() -> None:
    history = good()
    events = [e for e in history.events if (e.job, e.seq) != ("crashed", 5)]
    outcome = outcome_of(replace(history, events=events))
    told = tell(outcome)
    assert not outcome.passed
    assert "I10 crashed: sequences are [1, 2, 3, 4, 6," in told
    shown = [e for e in events if e.job == "crashed"] + [
        r for r in history.runs if r.job == "crashed"
    ]
    assert all(str(each) in told for each in shown)


def test_a_run_that_never_came_to_rest_or_did_too_little_fails() -> None:
    assert not outcome_of(good(), quiet=False).passed
    little = outcome_of(good())
    little.journal.landed = Counter({"kill:worker": 49})
    assert not little.passed
    assert "too few kills: 49" in tell(little)


@pytest.mark.parametrize("name", [*SHARES, *SEAMS])
def test_a_round_in_which_one_accident_never_happened_fails_and_names_it(name: str) -> None:
    outcome = outcome_of(good())
    del outcome.journal.landed[name]
    fails(outcome, f"never happened: {name}\n")


@pytest.mark.parametrize(
    ("teller", "count", "told"),
    [
        ("journal", "long_pauses", "a pause longer than a lease"),
        ("journal", "orderly_ends", "an orderly end after SIGTERM"),
        ("journal", "struck_at_work", "a kill of a worker that held leases"),
        ("load", "unanswered", "a submission without an answer"),
        ("load", "repeats", "a repeat of a key"),
        ("load", "doubted", "a repeat of a key without an answer"),
    ],
)
def test_a_round_in_which_something_never_came_to_pass_fails(
    teller: str, count: str, told: str
) -> None:
    outcome = outcome_of(good())
    setattr(getattr(outcome, teller), count, 0)
    fails(outcome, f"never happened: {told}\n")


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ("delayed", "a delayed job that was claimed"),
        ("patient", "a lease that outlasted its first term"),
    ],
)
def test_a_round_without_what_rules_judge_fails(job: str, told: str) -> None:
    history = good()
    events = [event for event in history.events if event.job != job]
    outcome = outcome_of(replace(history, events=events))
    assert f"never happened: {told}\n" in tell(outcome)


def test_a_round_in_which_no_renewed_lease_was_lost_fails() -> None:
    outcome = outcome_of(replace(good(), promised={}))
    fails(outcome, "never happened: a lease that was lost after a renewal\n")


@pytest.mark.parametrize("reason", SEEN)
def test_a_round_without_a_move_that_rules_judge_fails(reason: str) -> None:
    history = good()
    events = [event for event in history.events if event.reason != reason]
    fails(outcome_of(replace(history, events=events)), f"never happened: {reason}\n")


def test_a_round_whose_limited_queue_was_never_full_fails() -> None:
    history = good()
    rules = replace(history.rules, max_running={"narrow": 2})
    outcome = outcome_of(replace(history, rules=rules))
    assert not outcome.violations
    fails(outcome, "never happened: a full narrow\n")


def test_a_run_at_whose_end_a_program_does_nothing_fails_and_names_it() -> None:
    outcome = outcome_of(good())
    outcome.idle = ["worker-1"]
    fails(outcome, "I16: worker-1 does nothing\n")


def test_a_run_in_which_something_did_not_follow_an_accident_fails() -> None:
    outcome = outcome_of(good())
    outcome.journal.unmet.append("another reaper within 60 s")
    fails(outcome, "did not follow: another reaper within 60 s\n")


@pytest.mark.parametrize("code", [-11, -6, 2, 94, 137])
def test_a_run_in_which_a_program_crashed_fails(code: int) -> None:
    outcome = outcome_of(good())
    outcome.ends[f"worker {code}"] = 1
    fails(outcome, f"may not end so: worker {code}, 1 times\n")


@pytest.mark.parametrize("code", [0, 1, 3, -9, -15])
def test_programs_may_end_as_documented_or_by_a_signal_that_was_sent(code: int) -> None:
    outcome = outcome_of(good())
    outcome.ends[f"worker {code}"] = 1
    assert outcome.passed


def test_less_than_a_round_may_miss_what_it_has_no_time_for() -> None:
    outcome = outcome_of(good())
    outcome.rounds, outcome.journal.long_pauses = 0.5, 0
    outcome.journal.landed = Counter({"kill:worker": 25, "pause:worker": 10, "cut:all": 5})
    assert outcome.passed
    outcome.journal.landed["kill:worker"] = 24
    assert not outcome.passed


@pytest.mark.parametrize(
    "text",
    [
        "the program ends over an uncaught error: OSError: x",
        "a call failed unexpectedly: KeyError: x",
        "an outcome could not be stored: Internal: x",
        "an attempt broke the worker: TypeError: x",
        "a subscriber failed: ValueError: x",
        "a loop did not stop cleanly: claim: RuntimeError: x",
        "a turn failed, trying again: keeper: RuntimeError: the keeper process ended with 1",
        "unfit",
    ],
)
def test_a_run_in_which_an_error_was_logged_that_nobody_expected_fails(text: str) -> None:
    outcome = outcome_of(good())
    outcome.errors[text] = 2
    fails(outcome, f"may not be logged: {text}, 2 times\n")


def test_a_killed_keeper_may_be_logged_as_an_error() -> None:
    outcome = outcome_of(good())
    (text,) = EXPECTED
    assert text.endswith("the keeper process ended with -9")
    outcome.errors[text] = 2
    assert outcome.passed
