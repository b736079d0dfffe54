"""A run tells what landed by class, and of jobs at fault all that is known of them."""

import random
from collections import Counter
from dataclasses import replace

from tests.chaos.checker import check
from tests.chaos.history import History
from tests.chaos.journal import Journal
from tests.chaos.load import Load
from tests.chaos.plan import plan
from tests.chaos.report import tell
from tests.chaos.run import Outcome
from tests.chaos.stories import good


def outcome_of(history: History, *, quiet: bool = True) -> Outcome:
    journal = Journal(landed=Counter(plan(random.Random(1), 1.0)))
    load = Load((), 0, random.Random(1))
    return Outcome(1.0, history, check(history), journal, load, quiet)


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


def test_a_run_in_which_a_program_ended_over_an_error_that_nobody_expected_fails() -> None:
    outcome = outcome_of(good())
    outcome.errors["the program ends over an uncaught error: OSError: x"] = 2
    assert not outcome.passed
    assert "programs ended over errors: 2" in tell(outcome)
