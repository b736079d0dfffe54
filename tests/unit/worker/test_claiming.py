"""Slots, prefetch, idling and handing back, against recorded leases."""

import asyncio
import math
from dataclasses import replace

import pytest

from jobqueue.domain.lease import Counters
from jobqueue.domain.state import Reason
from jobqueue.worker import claiming as module
from jobqueue.worker.claiming import (
    LAST_IDLE_S,
    Hints,
    Room,
)
from jobqueue.worker.executor import Executor
from jobqueue.worker.signals import ATTEMPT_BROKE, AttemptBroke
from tests.support.recording_leases import RecordingLeases, leased
from tests.support.waiting import HANG_S, eventually
from tests.unit.worker.conftest import Make


async def test_every_job_runs_and_no_claim_asks_for_more_than_the_free_slots(
    loop_of: Make, leases: RecordingLeases
) -> None:
    jobs = [leased("async-returns", b"none") for _ in range(50)]
    leases.queue = list(jobs)
    loop = loop_of(Room(concurrency=4))
    await loop.claiming.start()
    await loop.settled(*jobs)
    assert all(n <= 4 for n, _ in leases.claims)
    await loop.claiming.idle.wait()


async def test_a_slot_is_taken_until_its_settlement_is_answered(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.settles_may_answer.clear()
    jobs = [leased("async-returns", b"none") for _ in range(3)]
    leases.queue = list(jobs)
    loop = loop_of(Room(concurrency=2))
    await loop.claiming.turn()
    await loop.held(2)
    await loop.claiming.turn()
    assert leases.claims == [(2, True)]
    leases.settles_may_answer.set()
    await loop.settled(*jobs[:2])
    await loop.held(0)
    await loop.claiming.turn()
    assert leases.claims == [(2, True), (2, True)]


@pytest.mark.parametrize(
    ("slots", "wave"),
    [(1, 1), (199, 199), (200, 100), (500, 250), (1_000, 250), (2_000, 500), (10_000, 2_000)],
)
def test_many_slots_are_filled_in_waves_of_a_bounded_size(slots: int, wave: int) -> None:
    assert Room(concurrency=slots).wave == wave


async def test_a_claim_waits_while_more_slots_are_being_freed_than_are_free(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.settles_may_answer.clear()
    jobs = [leased("async-returns", b"none") for _ in range(4)]
    leases.queue = jobs[:3]
    loop = loop_of(Room(concurrency=4))
    await loop.claiming.turn()
    await loop.held(3)
    await loop.unsettled(3)
    leases.queue = jobs[3:]
    await loop.claiming.turn()
    assert leases.claims == [(4, True)]
    leases.settles_may_answer.set()
    await loop.held(0)
    await loop.claiming.turn()
    assert leases.claims == [(4, True), (4, True)]
    await loop.settled(*jobs)


async def test_a_job_that_has_not_begun_is_handed_back_or_cancelled_or_just_gone(
    loop_of: Make, leases: RecordingLeases
) -> None:
    released, cancelled, lost = (leased("async-returns", b"none") for _ in range(3))
    loop = loop_of(Room())
    loop.claiming._take([released, cancelled, lost])
    loop.claiming.forget(lost.lease)
    loop.claiming.cancel(cancelled.lease)
    loop.claiming.release_unbegun()
    assert (await leases.settlement(released)).reason is Reason.RELEASED
    assert (await leases.settlement(cancelled)).reason is Reason.CANCELLED
    await asyncio.wait_for(loop.claiming.idle.wait(), HANG_S)
    assert lost.lease not in leases.settled


async def test_a_job_that_the_worker_cannot_run_has_failed_and_frees_its_slot_with_the_answer(
    loop_of: Make, leases: RecordingLeases, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(executor, "execute", breaks)
    broke: list[AttemptBroke] = []
    stop = ATTEMPT_BROKE.subscribe(broke.append)
    leases.settles_may_answer.clear()
    leases.queue = [job := leased("async-returns", b"none")]
    loop = loop_of(Room(concurrency=1))
    await loop.claiming.turn()
    await loop.unsettled(1)
    await loop.held(1)
    leases.settles_may_answer.set()
    settlement = await leases.settlement(job)
    stop()
    assert settlement.reason is Reason.HANDLER_FAILED
    assert settlement.detail == "the worker could not run it: ZeroDivisionError"
    await loop.held(0)
    assert [each.job for each in broke] == [job]


async def test_a_full_worker_holds_its_prefetch_unstarted_then_starts_it_in_one_batch(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.settles_may_answer.clear()
    jobs = [leased("async-returns", b"none") for _ in range(4)]
    leases.queue = list(jobs)
    loop = loop_of(Room(concurrency=2, prefetch=2))
    await loop.claiming.turn()
    assert leases.claims == [(2, True), (2, False)]
    leases.settles_may_answer.set()
    await loop.held(0)
    await loop.claiming.turn()
    assert leases.calls == ["start 2"]
    await loop.settled(*jobs)


async def test_a_prefetched_job_that_cannot_be_started_is_just_gone(
    loop_of: Make, leases: RecordingLeases
) -> None:
    job = leased("echo")
    leases.gone.add(job.lease)
    loop = loop_of(Room())
    loop.claiming._waiting.append((float("inf"), job))
    await loop.claiming.turn()
    assert loop.claiming.idle.is_set()
    assert not leases.settled


async def test_a_start_ends_what_counts_in_a_row_before_one(
    loop_of: Make, leases: RecordingLeases
) -> None:
    job = replace(leased("nobody has it"), running=False, counters=Counters(1, 2, 9, 5))
    loop = loop_of(Room())
    loop.claiming._waiting.append((float("inf"), job))
    await loop.claiming.turn()
    settlement = await leases.settlement(job)
    assert settlement.counters == Counters(1, 2, 0, 1)


async def test_a_refused_start_makes_room_for_the_next_prefetched_job_in_the_same_turn(
    loop_of: Make, leases: RecordingLeases
) -> None:
    first, *waiting = (leased("async-returns", b"none") for _ in range(4))
    leases.queue = [first, *waiting]
    loop = loop_of(Room(concurrency=1, prefetch=3))
    await loop.claiming.turn()
    await loop.settled(first)
    await loop.held(0)
    leases.gone = {job.lease for job in waiting[:2]}
    await loop.claiming.turn()
    await loop.settled(waiting[2])


@pytest.mark.parametrize(("ours", "theirs"), [(0.0, math.inf), (1e9, 0.0)])
async def test_a_prefetched_job_that_waits_too_long_is_handed_back(
    loop_of: Make, leases: RecordingLeases, ours: float, theirs: float
) -> None:
    job = leased("echo")
    leases.hold_limit_s = theirs
    loop = loop_of(Room(hold_s=ours))
    loop.claiming._waiting.append((0.0, job))
    await loop.claiming.turn()
    assert (await leases.settlement(job)).reason is Reason.RELEASED


async def test_a_job_without_handler_goes_back_without_being_started(
    loop_of: Make, leases: RecordingLeases
) -> None:
    job = leased("unknown", running=False)
    leases.queue = [job]
    loop = loop_of(Room())
    await loop.claiming.turn()
    assert (await leases.settlement(job)).reason is Reason.NO_HANDLER
    assert not leases.calls


async def test_an_idle_worker_asks_ever_less_often(loop_of: Make) -> None:
    loop = loop_of(Room())
    waits = [await loop.claiming.turn() for _ in range(10)]
    assert waits[:3] == [0.05, 0.1, 0.2]
    assert waits[-1] == LAST_IDLE_S


async def test_a_hint_ends_the_idle_wait(
    loop_of: Make, leases: RecordingLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST_IDLE_S", 1e6)  # so that nothing else ends it
    loop = loop_of(Room(stall_limit_s=1e6))
    loop.claiming.bound_s = loop.claiming._idle_s = 1e6
    hints = Hints(leases, loop.claiming)
    await loop.claiming.start()
    await hints.start()
    await asyncio.wait_for(_claimed(leases, 1), HANG_S)
    job = leased("async-returns", b"none")
    leases.queue = [job]
    leases.hint.set()
    await leases.settlement(job)
    await hints.stop(0.0)


async def test_a_closed_loop_claims_nothing_and_beats_on(
    loop_of: Make, leases: RecordingLeases
) -> None:
    loop = loop_of(Room())
    loop.claiming.drain()
    await loop.claiming.turn()
    await loop.claiming.turn()
    assert not leases.claims
    assert leases.calls == ["stop claiming", "draining"]
    assert leases.beats == 2


async def test_what_a_claim_brings_after_the_close_is_handed_back(
    loop_of: Make, leases: RecordingLeases
) -> None:
    job = leased("echo")
    loop = loop_of(Room())
    loop.claiming.close()
    loop.claiming._take([job])
    assert (await leases.settlement(job)).reason is Reason.RELEASED


async def test_a_lost_prefetched_job_is_forgotten(loop_of: Make, leases: RecordingLeases) -> None:
    job = leased("echo", running=False)
    loop = loop_of(Room(concurrency=1))
    loop.claiming._waiting.append((float("inf"), job))
    loop.claiming.forget(job.lease)
    assert loop.claiming.idle.is_set()


async def test_claims_resume_by_themselves_after_an_outage(
    loop_of: Make, leases: RecordingLeases
) -> None:
    leases.outage = True
    loop = loop_of(Room())
    await loop.claiming.start()
    await asyncio.wait_for(_claimed(leases, 2), HANG_S)
    job = leased("async-returns", b"none")
    leases.queue, leases.outage = [job], False
    await leases.settlement(job)


@pytest.mark.parametrize("stall_limit_s", [1.0, 300.0])
def test_turns_come_often_enough_for_the_stall_limit(stall_limit_s: float) -> None:
    room = Room(stall_limit_s=stall_limit_s)
    assert max(room.turn_s, room.last_idle_s) <= stall_limit_s / 2


async def _claimed(leases: RecordingLeases, times: int) -> None:
    async def look() -> bool:
        return len(leases.claims) >= times

    await eventually(look, what=f"{times} claims")
