import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

import pytest

from jobqueue.domain.lease import Lease
from jobqueue.domain.outcome import Completed, Failed, Postponed, Released
from jobqueue.errors import DeadlineExceeded, Internal, Unavailable
from jobqueue.lease import settler as module
from jobqueue.lease.settler import Ending, Settler, Written
from jobqueue.lease.signals import ANSWER_BROKE, AnswerBroke
from tests.support.recording_leases import leased
from tests.support.settling import answer_to_come

JOB = leased()


def done(job: int, result: bytes = b"", *, running: bool = True) -> Ending:
    return Ending(replace(JOB, lease=Lease(job, job), running=running), Completed(result))


class Flusher:
    """Records batches; each flush waits for the gate, then does what ``act`` says."""

    def __init__(self, act: Callable[[Sequence[Ending]], None] = lambda _: None) -> None:
        self.batches: list[list[Ending]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.ended: dict[Lease, bool] = {}
        self.lost: set[Lease] = set()
        self.stuck: list[Lease] = []
        self.act = act

    async def __call__(self, batch: Sequence[Ending]) -> AsyncIterator[Written]:
        self.batches.append(list(batch))
        self.begun.set()
        await self.gate.wait()
        self.act(batch)
        yield batch, frozenset(s.lease for s in batch) - self.lost

    def end(self, leases: Sequence[Lease], *, settled: bool) -> None:
        self.ended |= dict.fromkeys(leases, settled)


def failing(*errors: Exception) -> Callable[[Sequence[Ending]], None]:
    """Raise these, one a flush; the flushes behind them go well."""
    remaining = iter(errors)

    def act(_: Sequence[Ending]) -> None:
        for error in remaining:
            raise error

    return act


def make(flusher: Flusher, patience_s: float = 5.0) -> Settler:
    return Settler(flusher, flusher.end, flusher.stuck.extend, patience_s=patience_s)


def recorded_all(settler: Settler, endings: Iterable[Ending]) -> list[asyncio.Future[bool]]:
    """Settle these; return what waits for each answer."""
    answers = []
    for ending in endings:
        answer, answered = answer_to_come()
        settler.settle(ending, answered)
        answers.append(answer)
    return answers


async def recorded(settler: Settler, ending: Ending) -> bool:
    return await recorded_all(settler, [ending])[0]


async def test_while_one_flush_is_in_flight_the_next_gathers() -> None:
    flusher = Flusher()
    flusher.gate.clear()
    settler = make(flusher)
    first = asyncio.create_task(recorded(settler, done(1)))
    await flusher.begun.wait()
    rest = [asyncio.create_task(recorded(settler, done(job))) for job in range(2, 12)]
    await asyncio.sleep(0)
    flusher.gate.set()
    assert await asyncio.gather(first, *rest) == [True] * 11
    assert [len(batch) for batch in flusher.batches] == [1, 10]


async def test_a_batch_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH", 4)
    flusher = Flusher()
    settler = make(flusher)
    await asyncio.gather(*(recorded(settler, done(job)) for job in range(10)))
    assert [len(batch) for batch in flusher.batches] == [4, 4, 2]


async def test_a_lost_lease_is_told_to_its_caller_alone() -> None:
    flusher = Flusher()
    flusher.lost = {Lease(2, 2)}
    answers = await asyncio.gather(*recorded_all(make(flusher), [done(1), done(2), done(3)]))
    assert answers == [True, False, True]
    assert flusher.ended == {Lease(1, 1): True, Lease(2, 2): False, Lease(3, 3): True}


async def test_two_outcomes_of_one_lease_are_one() -> None:
    flusher = Flusher()
    settler = make(flusher)
    first, second = recorded(settler, done(1, b"a")), recorded(settler, done(1, b"b"))
    answers = await asyncio.gather(first, second)
    assert list(answers) == [True, True]
    assert flusher.batches == [[done(1, b"a")]]


async def test_a_cancelled_caller_takes_nobodys_outcome_down() -> None:
    flusher = Flusher()
    flusher.gate.clear()
    settler = make(flusher)
    leaving = asyncio.create_task(recorded(settler, done(1)))
    staying = asyncio.create_task(recorded(settler, done(2)))
    await flusher.begun.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    flusher.gate.set()
    assert await staying
    await settler.drain()
    assert flusher.ended[Lease(1, 1)]


async def test_a_transient_error_is_retried() -> None:
    flusher = Flusher(failing(Unavailable("cut"), Unavailable("cut")))
    assert await recorded(make(flusher), done(1))
    assert len(flusher.batches) == 3


async def test_outcomes_too_large_to_be_written_together_in_time_are_written_in_parts() -> None:
    def act(batch: Sequence[Ending]) -> None:
        if len(batch) > 2:
            raise DeadlineExceeded("the database did not answer in time")

    flusher = Flusher(act)
    answers = await asyncio.gather(*recorded_all(make(flusher), [done(job) for job in range(9)]))
    assert answers == [True] * 9
    assert [len(batch) for batch in flusher.batches] == [9, 4, 2, 2, 2, 2, 1]


async def test_results_that_are_large_together_are_written_one_after_the_other() -> None:
    sizes = [400, 400, 400, 2_000, 100]
    large = [done(job, b"x" * size * 1024) for job, size in enumerate(sizes)]
    refused = replace(done(9), outcome=Failed("x" * 1000 * 1024))
    flusher = Flusher()
    assert all(await asyncio.gather(*recorded_all(make(flusher), [*large, refused])))
    assert [len(batch) for batch in flusher.batches] == [2, 1, 1, 1, 1]


async def test_parts_are_halves_of_what_is_left() -> None:
    written: list[int] = []

    async def flush(batch: Sequence[Ending]) -> AsyncIterator[Written]:
        written.append(len(batch))
        if len(batch) == 2:
            raise DeadlineExceeded("the database did not answer in time")
        yield batch[:6], {ending.lease for ending in batch[:6]}
        if len(batch) > 6:
            raise DeadlineExceeded("the database did not answer in time")

    ended = Flusher()
    settler = Settler(flush, ended.end, ended.stuck.extend, patience_s=5.0)
    assert all(await asyncio.gather(*recorded_all(settler, [done(job) for job in range(8)])))
    assert written == [8, 1, 1]


async def test_a_part_that_was_written_does_not_end_the_trouble_with_the_rest() -> None:
    said: list[object] = []

    def act(batch: Sequence[Ending]) -> None:
        said.append(settler.trouble)
        if len(said) in {1, 3}:
            raise DeadlineExceeded("too late")

    settler = make(Flusher(act))
    assert all(await asyncio.gather(*recorded_all(settler, [done(job) for job in range(4)])))
    assert [str(trouble) for trouble in said[:4]] == ["None"] + ["too late"] * 3
    assert settler.trouble is None


async def test_trouble_with_what_was_given_up_ends_with_the_next_outcome_that_is_written() -> None:
    said: list[object] = []

    def act(batch: Sequence[Ending]) -> None:
        said.append(settler.trouble)
        if batch[0].lease.job == 1:
            raise Unavailable("down")

    settler = make(Flusher(act), patience_s=0.05)
    large = [done(job, b"x" * module.MAX_BYTES) for job in (1, 2, 3)]
    assert await asyncio.gather(*recorded_all(settler, large)) == [False, True, True]
    assert [str(trouble) for trouble in said[-2:]] == ["down", "None"]


async def test_an_outage_tears_no_batch_apart() -> None:
    flusher = Flusher(failing(Unavailable("cut"), Unavailable("cut")))
    assert all(await asyncio.gather(*recorded_all(make(flusher), [done(1), done(2), done(3)])))
    assert [len(batch) for batch in flusher.batches] == [3, 3, 3]


async def test_a_release_whose_answer_was_lost_is_not_told_as_a_lost_lease() -> None:
    flusher = Flusher(failing(Unavailable("the answer was lost")))
    batch = [done(1), replace(done(2), outcome=Released())]
    flusher.lost = {ending.lease for ending in batch}
    assert await asyncio.gather(*recorded_all(make(flusher), batch)) == [False, True]
    assert len(flusher.batches) == 2


async def test_a_release_that_is_refused_at_once_had_lost_its_lease() -> None:
    flusher = Flusher()
    ending = replace(done(1), outcome=Released())
    flusher.lost = {ending.lease}
    assert not await recorded(make(flusher), ending)


async def test_patience_ends_when_the_lease_cannot_be_held_any_more() -> None:
    def act(_: Sequence[Ending]) -> None:
        raise Unavailable("down")

    flusher = Flusher(act)
    settler = make(flusher, patience_s=0.1)
    assert not await recorded(settler, done(1))
    assert flusher.ended == {Lease(1, 1): False}
    assert flusher.stuck == [Lease(1, 1)], "told once"
    await settler.drain()
    assert settler.trouble is None, "nothing waits, so claims may go on"


async def test_what_is_stuck_says_why_until_it_is_written() -> None:
    said: list[object] = []

    def act(_: Sequence[Ending]) -> None:
        said.append(settler.trouble)
        if len(said) < 3:
            raise Unavailable("down")

    settler = make(Flusher(act))
    assert await recorded(settler, done(1))
    assert [str(trouble) for trouble in said] == ["None", "down", "down"]
    assert settler.trouble is None


async def test_a_part_that_was_written_has_its_answer_whatever_comes_of_the_rest() -> None:
    tries: list[int] = []

    async def flush(batch: Sequence[Ending]) -> AsyncIterator[Written]:
        tries.append(len(batch))
        for ending in batch:
            if ending.lease.job == 3:
                raise Unavailable("down")
            yield [ending], {ending.lease}

    ended = Flusher()
    settler = Settler(flush, ended.end, ended.stuck.extend, patience_s=0.1)
    answers = await asyncio.gather(*recorded_all(settler, [done(1), done(2), done(3)]))
    assert answers == [True, True, False]
    assert ended.stuck == [Lease(3, 3)]
    assert set(tries[1:]) == {1}, "only what is left is written again"


async def test_only_the_outcome_at_fault_is_replaced() -> None:
    def act(batch: Sequence[Ending]) -> None:
        if any(s.outcome == Completed(b"bad") for s in batch):
            raise Internal("refused")

    flusher = Flusher(act)
    settler = make(flusher)
    batch = [done(job, b"bad" if job == 5 else b"ok") for job in range(9)]
    assert await asyncio.gather(*recorded_all(settler, batch)) == [True] * 9
    replaced = [s for b in flusher.batches for s in b if isinstance(s.outcome, Failed)]
    assert [s.lease for s in replaced] == [Lease(5, 5)]


async def test_what_was_never_started_is_handed_back_instead() -> None:
    def act(batch: Sequence[Ending]) -> None:
        if isinstance(batch[0].outcome, Completed):
            raise Internal("refused")

    flusher = Flusher(act)
    assert await recorded(make(flusher), done(1, running=False))
    assert flusher.batches[-1][0].outcome == Released()


async def test_an_outcome_whose_substitute_is_refused_raises_for_its_caller_alone() -> None:
    def act(batch: Sequence[Ending]) -> None:
        if any(s.lease.job == 5 for s in batch):
            raise Internal("refused")

    flusher = Flusher(act)
    settler = make(flusher)
    answers = await asyncio.gather(
        *(recorded(settler, done(job)) for job in range(4, 7)), return_exceptions=True
    )
    assert answers[0] is True
    assert isinstance(answers[1], Internal)
    assert answers[2] is True


async def test_who_takes_an_answer_badly_takes_nobody_elses_away() -> None:
    broke: list[AnswerBroke] = []
    stop = ANSWER_BROKE.subscribe(broke.append)

    def badly(*_: object) -> None:
        raise ZeroDivisionError

    settler = make(Flusher())
    settler.settle(done(1), badly)
    answers = recorded_all(settler, [done(1), done(2)])
    settler.settle(done(2), badly)
    assert await asyncio.gather(*answers) == [True, True]
    await settler.drain()
    stop()
    assert [(each.job.lease.job, type(each.error)) for each in broke] == [
        (1, ZeroDivisionError),
        (2, ZeroDivisionError),
    ]
    assert await recorded(settler, done(3)), "the loop goes on"


async def test_a_fault_of_our_own_about_one_outcome_costs_no_other() -> None:
    def act(batch: Sequence[Ending]) -> None:
        if any(isinstance(s.outcome, Postponed) for s in batch):
            raise TypeError("must be real number, not str")

    flusher = Flusher(act)
    odd = replace(done(5), outcome=Postponed("30"))  # type: ignore[arg-type]
    batch = [odd if job == 5 else done(job) for job in range(9)]
    assert await asyncio.gather(*recorded_all(make(flusher), batch)) == [True] * 9
    endings = [s for b in flusher.batches for s in b]
    failed = {s.lease: s.outcome.error for s in endings if isinstance(s.outcome, Failed)}
    assert failed == {odd.lease: "its outcome could not be stored: must be real number, not str"}


async def test_a_fault_of_our_own_about_all_reaches_the_callers_and_stops_nothing() -> None:
    faults = iter([ZeroDivisionError(), ZeroDivisionError(), None])

    def act(_: Sequence[Ending]) -> None:
        if (fault := next(faults)) is not None:
            raise fault

    settler = make(Flusher(act))
    with pytest.raises(ZeroDivisionError):
        await recorded(settler, done(1))
    assert await recorded(settler, done(2))
