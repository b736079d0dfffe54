from jobqueue.runtime.batcher import Batcher
from jobqueue.runtime.log import LogContext, surrounding
from jobqueue.runtime.tasks import start_detached


async def test_a_detached_task_carries_nobodys_context() -> None:
    async def look() -> dict[str, object]:
        return surrounding()

    with LogContext(job_id="j1"):
        assert (await start_detached(look())).get("job_id") is None


async def test_a_flush_for_many_carries_the_context_of_none_of_them() -> None:
    seen: list[dict[str, object]] = []

    async def flush(items: object) -> list[int]:
        seen.append(surrounding())
        return [1]

    batcher: Batcher[int, int] = Batcher(flush, 10)
    with LogContext(job_id="j1"):
        await batcher.submit(1)
    assert [context.get("job_id") for context in seen] == [None]
