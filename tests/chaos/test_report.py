"""A run tells what landed by class, and of jobs at fault all that is known of them."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.chaos.checker import check
from tests.chaos.history import History
from tests.chaos.journal import Journal
from tests.chaos.load import Load
from tests.chaos.plan import GROUPS, SEAMS, plan
from tests.chaos.report import tell
from tests.chaos.run import Outcome
from tests.chaos.stories import good


def outcome_of(history: History, *, quiet: bool = True) -> Outcome:
    journal = Journal(landed=Counter(plan(random.Random(1), 1.0)), long_pauses=1)
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


@pytest.mark.parametrize("seam", SEAMS)
def test_a_round_in_which_one_seam_never_gave_fails_and_names_it(seam: str) -> None:
    outcome = outcome_of(good())
    del outcome.journal.landed[seam]
    assert not outcome.passed
    assert f"never happened: {seam}\n" in tell(outcome)


@pytest.mark.parametrize("group", GROUPS)
def test_a_round_without_any_accident_of_one_class_fails_and_names_it(group: str) -> None:
    outcome = outcome_of(good())
    landed = outcome.journal.landed
    outcome.journal.landed = Counter(
        {name: n for name, n in landed.items() if name.partition(":")[0] not in GROUPS[group]}
    )
    assert not outcome.passed
    assert f"never happened: {group}\n" in tell(outcome)


def test_a_round_without_a_pause_longer_than_a_lease_fails() -> None:
    outcome = outcome_of(good())
    outcome.journal.long_pauses = 0
    assert not outcome.passed
    assert "never happened: a pause longer than a lease\n" in tell(outcome)


def test_less_than_a_round_may_miss_what_it_has_no_time_for() -> None:
    outcome = outcome_of(good())
    outcome.rounds, outcome.journal.long_pauses = 0.5, 0
    outcome.journal.landed = Counter({"kill:worker": 25, "pause:worker": 10, "cut:all": 5})
    assert outcome.passed
    outcome.journal.landed["kill:worker"] = 24
    assert not outcome.passed


def test_a_run_in_which_a_program_ended_over_an_error_that_nobody_expected_fails() -> None:
    outcome = outcome_of(good())
    outcome.errors["the program ends over an uncaught error: OSError: x"] = 2
    assert not outcome.passed
    assert "programs ended over errors: 2" in tell(outcome)
