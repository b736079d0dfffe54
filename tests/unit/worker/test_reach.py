"""How many jobs a claim may bring, by what came in time and what did not."""

from jobqueue.worker.reach import Reach

MOST = 2_000


def claims_until(reach: Reach, size: int) -> int:
    """Let claims come full until one may bring ``size`` jobs; return how many that took."""
    claims = 0
    while reach.most < size:
        reach.brought(reach.most)
        claims += 1
    return claims


def test_an_outage_is_made_good_in_a_few_claims() -> None:
    reach = Reach(MOST)
    for _ in range(20):
        reach.was_late(reach.most)
    assert reach.most == 1
    assert claims_until(reach, MOST // 2) <= 10
    assert claims_until(reach, MOST) <= 50


def test_a_small_claim_that_met_a_lock_makes_no_others_small_for_long() -> None:
    reach = Reach(MOST)
    reach.was_late(1)
    assert reach.most == 1
    assert claims_until(reach, MOST // 2) <= 10


def test_what_was_too_much_is_met_again_seldom() -> None:
    reach, takes = Reach(MOST), 640
    late = 0
    for _ in range(200):
        if reach.most > takes:
            late += 1
            reach.was_late(reach.most)
        else:
            reach.brought(reach.most)
    assert late <= 8, "twice to learn it, then about every forty claims"


def test_two_claims_that_are_late_together_count_once() -> None:
    reach = Reach(MOST)
    reach.was_late(MOST)
    reach.was_late(MOST)
    assert reach.most == MOST // 2
    assert claims_until(reach, MOST // 2) == 0


def test_a_claim_that_is_not_full_says_nothing_of_larger_ones() -> None:
    reach = Reach(MOST)
    reach.was_late(MOST)
    reach.brought(MOST // 4)
    assert reach.most == MOST // 2
