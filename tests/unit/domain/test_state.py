from itertools import product

import pytest

from jobqueue.domain.state import EVENT_TYPES, TERMINAL, JobStatus, Reason, event_type

LEGAL = """
none PENDING job.submitted
PENDING ASSIGNED job.assigned
ASSIGNED RUNNING job.started
RUNNING DONE job.completed
RUNNING FAILED job.failed
ASSIGNED FAILED job.failed
FAILED PENDING job.retried
FAILED DEAD_LETTERED job.dead-lettered
PENDING DEAD_LETTERED job.dead-lettered
ASSIGNED DEAD_LETTERED job.dead-lettered
DEAD_LETTERED PENDING job.revived
"""


def moves() -> dict[tuple[JobStatus | None, JobStatus], str]:
    lines = [line.split() for line in LEGAL.strip().splitlines()]
    return {(None if a == "none" else JobStatus(a), JobStatus(b)): name for a, b, name in lines}


def test_the_legal_moves_are_exactly_those_of_the_contract() -> None:
    assert moves() == EVENT_TYPES


@pytest.mark.parametrize("pair", sorted(set(product([None, *JobStatus], JobStatus)), key=str))
def test_every_other_move_has_no_event(pair: tuple[JobStatus | None, JobStatus]) -> None:
    if pair in moves():
        assert event_type(*pair) == moves()[pair]
    else:
        with pytest.raises(KeyError):
            event_type(*pair)


def test_a_done_job_never_moves_again() -> None:
    assert not [pair for pair in EVENT_TYPES if pair[0] is JobStatus.DONE]


def test_only_done_and_dead_lettered_are_terminal() -> None:
    assert {s for s in JobStatus if s.terminal} == TERMINAL
    assert {JobStatus.DONE, JobStatus.DEAD_LETTERED} == TERMINAL


def test_every_status_can_be_reached_from_a_submission() -> None:
    reached: set[JobStatus | None] = {None}
    for _ in JobStatus:
        reached |= {to for came_from, to in EVENT_TYPES if came_from in reached}
    assert reached == {None, *JobStatus}


def test_the_reasons_are_the_closed_list() -> None:
    assert " ".join(Reason) == (
        "SUBMITTED CLAIMED STARTED COMPLETED HANDLER_FAILED TIMED_OUT LEASE_EXPIRED "
        "ASSIGNMENT_TIMEOUT RELEASED NO_HANDLER RETRY_LATER RETRY_DUE RETRIES_EXHAUSTED "
        "CRASH_LIMIT REFUSED TTL_EXPIRED CANCELLED OPERATOR_RETRY"
    )
