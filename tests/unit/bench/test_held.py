"""How the backlog of a held snapshot is kept filled."""

from typing import cast

from bench.ours import Ours
from bench.stage import BATCH_JOBS, Scene
from bench.workloads.held import DEPTH, _Feed

NOWHERE = cast(Scene, None)


def test_what_was_done_is_made_up_for_by_whole_batches() -> None:
    feed = _Feed(NOWHERE, Ours(), 0)
    feed._stored = DEPTH
    feed.done = BATCH_JOBS - 1
    assert feed._wanted(0.0) == 0
    feed.done = 2 * BATCH_JOBS + 1
    assert feed._wanted(0.0) == 2 * BATCH_JOBS


def test_a_fixed_rate_is_offered_by_the_clock_whatever_is_done() -> None:
    feed = _Feed(NOWHERE, Ours(), 500)
    feed._offered = 400
    assert feed._wanted(feed._begun + 0.9) == 100
