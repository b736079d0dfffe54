import asyncio

import pytest

from jobqueue.lease.errands import Errands


async def test_work_goes_on_without_its_caller_and_its_result_goes_elsewhere() -> None:
    gate, errands, handed = asyncio.Event(), Errands(), list[int]()

    async def work() -> int:
        await gate.wait()
        return 7

    caller = asyncio.create_task(errands.run(work(), handed.append))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    gate.set()
    await errands.finish()
    assert handed == [7]


async def test_a_caller_that_stays_gets_result_or_error() -> None:
    errands, handed = Errands(), list[int]()

    async def work(*, fails: bool) -> int:
        if fails:
            raise ValueError("broken")
        return 7

    assert await errands.run(work(fails=False), handed.append) == 7
    with pytest.raises(ValueError, match="broken"):
        await errands.run(work(fails=True), handed.append)
    assert handed == []


async def test_the_end_waits_also_for_what_work_starts() -> None:
    errands, seen = Errands(), list[str]()

    async def second() -> None:
        seen.append("second")

    async def first() -> None:
        await asyncio.sleep(0)
        errands.start(second())

    errands.start(first())
    await errands.finish()
    assert seen == ["second"]
