import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.queue import PRIORITIES, draw_order


def draws(rng: random.Random) -> list[float]:
    return [1.0 - rng.random() for _ in PRIORITIES]


def test_without_weights_the_order_is_strict() -> None:
    assert draw_order({}, []) == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_the_first_place_falls_to_each_priority_by_its_weight() -> None:
    weights = {9: 100, 7: 10, 5: 5, 0: 1}
    total = sum(weights.values()) + 6  # the six unnamed priorities weigh 1 each
    rng, rounds = random.Random(1), 40_000
    first = Counter(draw_order(weights, draws(rng))[0] for _ in range(rounds))
    for priority in PRIORITIES:
        share = weights.get(priority, 1) / total
        assert abs(first[priority] / rounds - share) < 5 * (share / rounds) ** 0.5


def test_the_second_place_is_shared_in_proportion_too() -> None:
    weights = {p: 1_000_000 if p in (9, 8) else 1 for p in PRIORITIES}
    rng = random.Random(2)
    pairs = Counter(tuple(draw_order(weights, draws(rng))[:2]) for _ in range(4000))
    assert set(pairs) >= {(9, 8), (8, 9)}
    assert abs(pairs[9, 8] - pairs[8, 9]) < 300


@given(
    st.dictionaries(st.integers(0, 9), st.integers(1, 10**6)),
    st.lists(st.floats(0, 1, exclude_min=True), min_size=10, max_size=10),
)
def test_every_priority_is_visited_exactly_once(weights: dict[int, int], draw: list[float]) -> None:
    assert sorted(draw_order(weights, draw)) == list(range(10))
