from jobqueue.lease.claimer import LimitPace
from jobqueue.runtime.clock import ManualClock


def waited(pace: LimitPace, clock: ManualClock) -> float:
    """Return how long the queue is left alone, to a hundredth of a second."""
    begun = clock.monotonic()
    while not pace.is_due("q"):
        clock.advance(0.01)
    return clock.monotonic() - begun


def test_an_empty_queue_is_asked_less_and_less() -> None:
    clock = ManualClock()
    pace = LimitPace(clock)
    waits = []
    for _ in range(12):
        pace.gave_nothing("q", full=False)
        waits.append(waited(pace, clock))
    assert waits[0] < 0.1
    assert waits == sorted(waits)
    assert 9.9 < waits[-1] < 10.1


def test_a_full_queue_is_asked_every_few_seconds() -> None:
    clock = ManualClock()
    pace = LimitPace(clock)
    for _ in range(12):
        pace.gave_nothing("q", full=True)
        last = waited(pace, clock)
    assert 2.4 < last < 2.6


def test_a_hint_that_comes_while_a_claim_is_under_way_outlives_its_answer() -> None:
    pace = LimitPace(ManualClock())
    pace.begin()
    pace.hurry("q")
    pace.gave_nothing("q", full=True)
    assert pace.is_due("q")
    pace.begin()
    pace.gave_nothing("q", full=True)
    assert not pace.is_due("q"), "the next claim saw what the hint told of"


def test_a_hint_ends_the_wait() -> None:
    pace = LimitPace(ManualClock())
    pace.gave_nothing("q", full=False)
    assert not pace.is_due("q")
    pace.hurry("q")
    assert pace.is_due("q")


def test_one_that_was_passed_over_is_asked_when_a_claim_leaves_slots() -> None:
    pace = LimitPace(ManualClock())
    for queue in ("q", "empty", "empty by now"):
        pace.passed_over(queue)
        assert not pace.is_due(queue)
    pace.gave_nothing("empty", full=False)
    pace.gave_nothing("empty by now", full=True)
    pace.begin()
    pace.slots_left()
    assert pace.is_due("q")
    assert not pace.is_due("empty")
    assert not pace.is_due("empty by now")


def test_an_empty_one_that_is_passed_over_again_and_again_is_asked_less_and_less() -> None:
    clock = ManualClock()
    pace = LimitPace(clock)
    waits = []
    for _ in range(12):
        pace.passed_over("q")
        pace.slots_left()
        assert pace.is_due("q")
        pace.gave_nothing("q", full=False)
        pace.slots_left()
        waits.append(waited(pace, clock))
    assert waits[0] < waits[3] < waits[-1]
    assert 9.9 < waits[-1] < 10.1
