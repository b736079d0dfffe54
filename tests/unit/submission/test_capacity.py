"""How much is held of submissions, and that neither kind takes all of it."""

from contextlib import ExitStack

import pytest

from jobqueue.domain.columns import columns_of
from jobqueue.domain.job import JobSpec
from jobqueue.errors import ResourceExhausted
from jobqueue.submission.capacity import Capacity, size_of, size_of_all


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    "capacity", [Capacity(4, 1_000), Capacity(1_000, 40)], ids=["calls", "bytes"]
)
def test_what_one_kind_cannot_have_any_more_the_other_still_can(
    capacity: Capacity, *, keyed: bool
) -> None:
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(capacity.held(10, keyed=keyed))
        with pytest.raises(ResourceExhausted) as caught, capacity.held(1, keyed=keyed):
            pass
        assert caught.value.reason == "OVERLOADED"
        held.enter_context(capacity.held(10, keyed=not keyed))
        with pytest.raises(ResourceExhausted), capacity.held(1, keyed=not keyed):
            pass
    with capacity.held(30, keyed=keyed):
        pass


def test_a_call_that_fails_or_is_given_up_holds_nothing_any_more() -> None:
    capacity = Capacity(2, 100)
    for _ in range(3):
        with pytest.raises(TimeoutError), capacity.held(75, keyed=False):
            raise TimeoutError


def test_labels_and_trace_count_like_payloads() -> None:
    specs = [
        JobSpec(queue="q", payload=b"12345", labels={"a": "b"}),
        JobSpec(queue="q", payload=b"67", labels={"cd": "e"}, trace_context={"traceparent": "x"}),
    ]
    bare = size_of(JobSpec(queue="q", payload=b""))
    assert [size_of(one) - bare for one in specs] == [7, 17]
    assert size_of_all(columns_of(specs)) == 24 + 2 * bare


def test_a_batch_of_jobs_without_payloads_is_not_free() -> None:
    batch = columns_of([JobSpec(queue="q", payload=b"")] * 10_000)
    assert size_of_all(batch) > 1_000_000
