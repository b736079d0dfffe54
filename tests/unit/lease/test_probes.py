from collections import Counter
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.queue import PRIORITIES
from jobqueue.lease.probes import ProbePlan, draw_quotas, handles_untyped
from jobqueue.store.queues import QueueServing

WEIGHTS = {9: 100, 7: 10, 5: 5, 0: 1}


def strict(name: str, *, paused: bool = False) -> QueueServing:
    return QueueServing(name, {}, limited=False, paused=paused)


def weighted(name: str) -> QueueServing:
    return QueueServing(name, WEIGHTS, limited=False, paused=False)


def plan(*types: str) -> ProbePlan:
    return ProbePlan(frozenset(types), draw=lambda: 0.5)


def test_strict_queues_are_visited_priority_by_priority() -> None:
    probes = plan().probes([strict("a"), strict("b")], n=4, rotation=0)
    places = [(p.queue, p.priority) for p in probes]
    assert places == [(queue, priority) for priority in PRIORITIES for queue in ("a", "b")]
    assert {p.quota for p in probes} == {4}


def test_queues_of_equal_priority_rotate_from_claim_to_claim() -> None:
    queues = [strict("a"), strict("b"), strict("c")]
    first = [plan().probes(queues, 1, rotation)[0].queue for rotation in range(4)]
    assert first == ["a", "b", "c", "a"]


def test_a_paused_queue_is_not_visited() -> None:
    probes = plan().probes([strict("a", paused=True), strict("b")], n=1, rotation=0)
    assert {p.queue for p in probes} == {"b"}


def test_no_queue_gives_no_probe() -> None:
    assert plan().probes([], n=1, rotation=7) == []


def test_a_weighted_queue_comes_again_without_quotas_so_that_no_slot_stays_empty() -> None:
    probes = plan().probes([weighted("w")], n=3, rotation=0)
    fill = probes[-len(PRIORITIES) :]
    assert {p.priority for p in fill} == set(PRIORITIES)
    assert {p.quota for p in fill} == {3}
    quotas = {p.priority: p.quota for p in probes[: -len(PRIORITIES)]}
    assert all(p.skip == quotas.get(p.priority, 0) for p in fill), "no job is found twice"
    assert sum(p.quota for p in probes[: -len(PRIORITIES)]) == 3


def test_a_weighted_queue_stands_beside_the_nines_of_a_strict_one() -> None:
    probes = plan().probes([strict("s"), weighted("w")], n=1, rotation=0)
    assert (probes[0].queue, probes[0].priority) == ("s", 9)
    assert probes[1].queue == "w"
    assert probes[2].queue == "s"


def test_a_job_without_a_type_needs_a_handler_named_like_its_queue_or_default() -> None:
    assert handles_untyped(frozenset({"mail"}), "mail")
    assert handles_untyped(frozenset({"default"}), "mail")
    assert not handles_untyped(frozenset({"other"}), "mail")


def test_claims_of_one_job_share_by_weight() -> None:
    steps = 1_160
    draws = Counter[int]()
    for step in range(steps):
        quotas = draw_quotas(WEIGHTS, 1, step / steps)
        draws.update({p: q for p, q in quotas.items() if q})
    total = 100 + 10 + 5 + 1 + 6
    assert all(abs(draws[p] - steps * w / total) <= 1 for p, w in WEIGHTS.items())
    assert draws[3] > 0, "an unnamed priority weighs 1"


@given(
    st.dictionaries(st.sampled_from(list(PRIORITIES)), st.integers(1, 1_000)),
    st.integers(1, 500),
    st.floats(0, 1, exclude_max=True),
)
def test_quotas_are_exact_shares_rounded_and_add_up(
    weights: dict[int, int], n: int, draw: float
) -> None:
    quotas = draw_quotas(weights, n, draw)
    total = sum(weights.get(p, 1) for p in PRIORITIES)
    assert sum(quotas.values()) == n
    for priority, quota in quotas.items():
        share = n * weights.get(priority, 1) / total
        assert share - 1 - 1e-6 <= quota <= share + 1 + 1e-6


def test_every_draw_is_asked_for_anew() -> None:
    numbers = count()
    drawing = ProbePlan(frozenset(), draw=lambda: (next(numbers) * 0.37) % 1)
    orders = {tuple(p.priority for p in drawing.probes([weighted("w")], 5, 0)) for _ in range(20)}
    assert len(orders) > 1
