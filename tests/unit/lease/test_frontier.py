"""The frontier: bounds only where a look at everything is dear, never past what may be there."""

from uuid import uuid4

import pytest

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.lease import Counters, Lease, LeasedJob
from jobqueue.lease.frontier import CHEAP_JOB_S, CHEAP_S, NARROW_S, SLACK_S, WIDE_EVERY_S, Frontier
from jobqueue.runtime.clock import ManualClock
from jobqueue.runtime.looks import LONGEST_S, SHARE
from jobqueue.store.leases import Probe

NINE, FIVE = Probe("q", 9, 10, untyped=True), Probe("q", 5, 10, untyped=True)
PROBES = [NINE, FIVE]
DEAR_S = 2 * CHEAP_S
REST_S = SHARE * (DEAR_S - CHEAP_S - CHEAP_JOB_S)
"""After dear looks that bring one job."""


def job(priority: int, waited_s: float) -> LeasedJob:
    return LeasedJob(
        Lease(1, 1), uuid4(), "q", "t", b"", priority, 1, True, 3, None, {}, {}, Counters(),
        RetryPolicy(1.0, 1.0, 2.0), waited_s,
    )  # fmt: skip


class Claims:
    """A frontier, and a database whose claims take as long as a test says."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.frontier = Frontier(self.clock)

    def bounds(self) -> list[float | None]:
        return [probe.within_s for probe in self.frontier.bound(PROBES)]

    def claim(self, *jobs: LeasedJob, n: int = 10, takes_s: float = DEAR_S) -> None:
        probes, begun_at = self.frontier.bound(PROBES), self.clock.monotonic()
        self.clock.advance(takes_s)
        self.frontier.note(probes, n, jobs, begun_at)

    def looks_are_dear(self, *jobs: LeasedJob, n: int = 10, takes_s: float = DEAR_S) -> None:
        """Look at everything twice, each time in vain or for these jobs, which is dear."""
        for _ in range(2):
            assert self.bounds() == [None, None]
            self.claim(*jobs, n=n, takes_s=takes_s)


@pytest.fixture
def claims() -> Claims:
    return Claims()


def test_nothing_is_left_out_as_long_as_a_look_at_everything_is_cheap(claims: Claims) -> None:
    for _ in range(3):
        claims.claim(job(9, 1.0), takes_s=CHEAP_S / 2)
        assert claims.bounds() == [None, None]


def test_one_slow_answer_hides_nothing(claims: Claims) -> None:
    claims.claim(job(9, 1.0), takes_s=60.0)
    assert claims.bounds() == [None, None]


def test_dear_looks_are_followed_by_bounded_ones_that_begin_at_the_newest_job(
    claims: Claims,
) -> None:
    claims.looks_are_dear(job(9, 30.0), job(9, 20.0))
    nine, five = claims.bounds()
    assert nine == pytest.approx(20.0 + DEAR_S + SLACK_S)
    assert five == pytest.approx(DEAR_S + SLACK_S), "nothing was there when we looked"


def test_a_place_that_a_full_claim_did_not_come_to_stays_unbounded(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 1.0), n=1)
    nine, five = claims.bounds()
    assert nine is not None
    assert five is None


def test_everything_is_looked_at_again_after_a_share_of_what_it_cost(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 1.0))
    claims.clock.advance(REST_S - 0.001)
    assert None not in claims.bounds()
    claims.clock.advance(0.002)
    assert claims.bounds() == [None, None]


def test_everything_is_looked_at_again_after_ten_seconds_however_dear_it_is(
    claims: Claims,
) -> None:
    claims.looks_are_dear(job(9, 1.0), takes_s=60.0)
    claims.clock.advance(LONGEST_S - 0.001)
    assert None not in claims.bounds()
    claims.clock.advance(0.002)
    assert claims.bounds() == [None, None]


def test_bounded_claims_do_not_put_off_the_next_look_at_everything(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 1.0))
    for _ in range(int(REST_S / DEAR_S)):
        assert None not in claims.bounds()
        claims.claim(job(9, 0.0))
    claims.clock.advance(DEAR_S)
    assert claims.bounds() == [None, None]


def test_a_job_before_the_frontier_lets_the_next_claim_look_for_more(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 1.0))
    claims.clock.advance(REST_S)
    claims.claim(job(9, 500.0), n=1)
    assert claims.bounds() == [None, None]
    claims.claim(job(9, 400.0), job(9, 0.1))
    assert None not in claims.bounds(), "a later one says that all before it were taken"


def test_an_old_job_does_not_move_the_frontier_back(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 1.0))
    claims.clock.advance(REST_S)
    claims.claim(job(9, 500.0))
    claims.claim()
    nine, _ = claims.bounds()
    assert nine is not None
    assert nine < 10


def test_what_is_forgotten_is_looked_at_whole_once(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 1.0))
    claims.frontier.forget()
    assert claims.bounds() == [None, None]
    claims.claim(job(9, 1.0))
    assert None not in claims.bounds()


def test_bounded_claims_are_wide_from_time_to_time_and_narrow_else(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 0.0))
    for _ in range(2):
        claims.claim(job(9, 0.0), takes_s=0.001)
    assert claims.bounds()[0] == pytest.approx(0.001 + NARROW_S)
    claims.clock.advance(0.001 * SHARE + 0.0001)
    assert claims.bounds()[0] == pytest.approx(0.001 + 0.001 * SHARE + 0.0001 + SLACK_S)


def test_a_wide_look_is_due_a_second_after_the_last_however_dear_it_was(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 0.0), takes_s=1.0)
    for _ in range(2):
        claims.claim(job(9, 0.0), takes_s=0.5)
    claims.clock.advance(WIDE_EVERY_S - 0.001)
    assert claims.bounds()[0] == pytest.approx(0.5 + WIDE_EVERY_S - 0.001 + NARROW_S)
    claims.clock.advance(0.002)
    assert claims.bounds()[0] == pytest.approx(0.5 + WIDE_EVERY_S + 0.001 + SLACK_S)


def test_a_wide_look_that_found_a_late_job_is_followed_by_another(claims: Claims) -> None:
    claims.looks_are_dear(job(9, 0.0))
    claims.claim(job(9, 0.0), takes_s=0.001)
    claims.claim(job(9, 1.0), takes_s=0.001)
    begins = claims.bounds()[0]
    assert begins is not None
    assert begins > SLACK_S
