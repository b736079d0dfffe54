"""What the gate does with streams whose two ends meet."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

from jobqueue.rpc.gate import Gate


async def test_a_caller_who_leaves_as_the_stream_ends_leaves_no_error_behind() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
    ended = asyncio.Event()

    async def one() -> AsyncIterator[int]:
        yield 1
        await ended.wait()

    stream = Gate().until_closed(one())
    assert await anext(stream) == 1
    waiting = asyncio.ensure_future(anext(stream))
    for _ in range(3):
        await asyncio.sleep(0)  # until the step to the end of the stream waits
    ended.set()
    await asyncio.sleep(0)  # it is done, and the gate has not looked yet
    waiting.cancel()
    await asyncio.wait({waiting})
    del waiting, stream
    await asyncio.sleep(0)  # the loop lets go of its last handles
    gc.collect()
    assert complaints == []
