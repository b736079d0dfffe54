"""Claims that are under way while other things go on, against recorded leases."""

import asyncio
import contextlib

import pytest

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.state import Reason
from jobqueue.errors import DeadlineExceeded, Unavailable
from jobqueue.worker.claiming import WAVES_FROM, Room
from tests.support.recording_leases import RecordingLeases, leased
from tests.support.waiting import HANG_S, eventually
from tests.unit.worker.conftest import Loop, Make


async def test_a_wide_worker_claims_its_second_wave_before_the_first_one_runs(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.queue = [leased("async-returns", b"none") for _ in range(3 * WAVES_FROM)]
    loop = loop_of(Room(concurrency=WAVES_FROM))
    assert await loop.claiming.turn() == 0.0, "a claim is under way"
    await asyncio.sleep(0)
    assert leases.claims == [(WAVES_FROM // 2, True)] * 2
    assert not leases.settled
    assert not leases.unsettled
    assert await loop.claiming.turn() is None, "all slots are taken"
    assert leases.claims == [(WAVES_FROM // 2, True)] * 2


@pytest.mark.parametrize(
    ("room", "running"),
    [(Room(concurrency=40), True), (Room(concurrency=1, prefetch=40), False)],
    ids=["claims", "prefetch"],
)
async def test_claims_too_large_to_be_answered_in_time_get_smaller_and_grow_again_slowly(
    loop_of: Make,
    leases: RecordingLeases,
    monkeypatch: pytest.MonkeyPatch,
    room: Room,
    running: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    leases.queue = [leased("async-sleeps") for _ in range(room.concurrency + room.prefetch)]
    answer = leases.claim

    async def claim(n: int, *, running: bool) -> list[LeasedJob]:
        if n > 10:
            leases.claims.append((n, running))
            raise DeadlineExceeded("the database did not answer in time")
        return await answer(n, running=running)

    monkeypatch.setattr(leases, "claim", claim)
    loop = loop_of(room)

    async def all_are_held() -> bool:
        with contextlib.suppress(DeadlineExceeded):
            await loop.claiming.turn()
        return not leases.queue

    await eventually(all_are_held)
    sizes = [n for n, ran in leases.claims if ran is running]
    assert sizes[:4] == [40, 20, 10, 20], "10 came: it may have been an outage"
    assert sizes[4:6] == [10, 11], "it was not, so a little more is tried"
    assert set(sizes[6:]) <= set(range(1, 12)), "never again as much as would not come"


async def test_a_claim_that_is_under_way_when_the_loop_closes_is_waited_for_and_handed_back(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.queue = jobs = [leased("async-returns", b"none") for _ in range(WAVES_FROM)]
    loop = loop_of(Room(concurrency=WAVES_FROM))
    await loop.claiming.turn()
    loop.claiming.close()
    await loop.claiming.turn()
    for job in jobs[WAVES_FROM // 2 :]:
        assert (await leases.settlement(job)).reason is Reason.RELEASED
    await asyncio.wait_for(loop.claiming.idle.wait(), HANG_S)


async def test_a_claim_that_is_under_way_when_the_loop_ends_is_cut_off_and_handed_back(
    loop_of: Make, leases: RecordingLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases.queue = jobs = [leased("async-returns", b"none") for _ in range(WAVES_FROM // 2)]
    first, sent, cut = leases.claim, asyncio.Event(), asyncio.Event()

    async def claim(n: int, *, running: bool) -> list[LeasedJob]:
        if leases.queue:
            return await first(n, running=running)
        sent.set()
        try:
            await asyncio.Event().wait()  # the database does not answer
        finally:
            cut.set()
        return []

    monkeypatch.setattr(leases, "claim", claim)
    loop = loop_of(Room(concurrency=WAVES_FROM))
    assert await loop.claiming.turn() == 0.0, "a claim is under way"
    await sent.wait()
    await loop.claiming.teardown()
    assert cut.is_set(), "by which the lease room knows what to do with its jobs"
    await loop.settled(*jobs)


async def test_what_a_claim_has_brought_when_the_loop_ends_is_handed_back(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.queue = jobs = [leased("async-returns", b"none") for _ in range(WAVES_FROM)]
    loop = loop_of(Room(concurrency=WAVES_FROM))
    assert await loop.claiming.turn() == 0.0, "a claim is under way"
    await brought(loop)
    await loop.claiming.teardown()
    for job in jobs[WAVES_FROM // 2 :]:
        assert (await leases.settlement(job)).reason is Reason.RELEASED
    await asyncio.wait_for(loop.claiming.idle.wait(), 20.0)


async def test_what_a_claim_brings_at_the_moment_the_loop_is_cancelled_is_handed_back(
    loop_of: Make, leases: RecordingLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases.queue = [job] = [leased("async-returns", b"none")]
    first, answers = leases.claim, asyncio.Event()

    async def claim(n: int, *, running: bool) -> list[LeasedJob]:
        await answers.wait()
        return await first(n, running=running)

    monkeypatch.setattr(leases, "claim", claim)
    loop = loop_of(Room(concurrency=1))
    turn = asyncio.create_task(loop.claiming.turn())
    await asyncio.sleep(0)
    answers.set()
    await brought(loop)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await loop.claiming.teardown()
    assert (await leases.settlement(job)).reason is Reason.RELEASED


async def test_a_claim_that_cancels_itself_is_not_waited_for_again(
    loop_of: Make, leases: RecordingLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def claim(_n: int, *, running: bool) -> list[LeasedJob]:
        raise asyncio.CancelledError

    loop = loop_of(Room(concurrency=1))
    with monkeypatch.context() as patched:
        patched.setattr(leases, "claim", claim)
        with pytest.raises(asyncio.CancelledError):
            await loop.claiming.turn()
    leases.queue = [job] = [leased("async-returns", b"none")]
    await loop.claiming.turn()
    await loop.settled(job)


async def brought(loop: Loop) -> None:
    """Return once the claim under way has its answer, before anybody else has heard of it."""
    (claim,) = loop.claiming._under_way
    async with asyncio.timeout(20):
        while not claim.jobs.done():  # noqa: ASYNC110 - whoever is told of it is told too late
            await asyncio.sleep(0)


async def test_claims_go_ahead_of_full_ones_and_are_taken_in_at_once_when_one_is_not(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.queue = jobs = [leased("async-returns", b"none") for _ in range(260)]
    loop = loop_of(Room(concurrency=1_000))
    assert await loop.claiming.turn() == 0.0
    await asyncio.sleep(0)
    assert leases.claims == [(250, True)] * 3
    assert await loop.claiming.turn() == 0.0  # not full; the third is still under way
    waits = await loop.claiming.turn()
    assert waits is not None
    assert waits > 0.0
    await loop.settled(*jobs)


async def test_nothing_is_prefetched_while_claims_are_under_way_nor_after_the_close(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.settles_may_answer.clear()
    leases.queue = [leased("async-returns", b"none") for _ in range(WAVES_FROM + 10)]
    loop = loop_of(Room(concurrency=WAVES_FROM, prefetch=10))
    assert await loop.claiming.turn() == 0.0
    await asyncio.sleep(0)
    assert leases.claims == [(WAVES_FROM // 2, True)] * 2, "all slots are asked for, half are full"
    loop.claiming.close()
    await loop.claiming.turn()
    assert leases.claims == [(WAVES_FROM // 2, True)] * 2
    leases.settles_may_answer.set()


async def test_behind_a_claim_that_failed_the_next_is_taken_in_and_none_goes_ahead(
    loop_of: Make, leases: RecordingLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases.queue = jobs = [leased("async-returns", b"none") for _ in range(251)]
    first = leases.claim

    async def claim(n: int, *, running: bool) -> list[LeasedJob]:
        if len(leases.claims) == 1:
            leases.claims.append((n, running))
            raise Unavailable("gone")
        return await first(n, running=running)

    monkeypatch.setattr(leases, "claim", claim)
    loop = loop_of(Room(concurrency=1_000))
    assert await loop.claiming.turn() == 0.0
    with pytest.raises(Unavailable):
        await loop.claiming.turn()
    await loop.claiming.turn()
    await loop.settled(*jobs)
    await loop.claiming.turn()
    assert len(leases.claims) == 4
