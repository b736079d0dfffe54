"""A server that takes connections and answers nothing, as one behind a dead network."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from jobqueue.client import AsyncClient, Client
from jobqueue.errors import Unavailable
from jobqueue.transport.pings import ANSWER_S, ASKED_AFTER_S
from tests.support.frozen import stopped
from tests.support.programs import ServerProgram
from tests.support.store import add_queue, submit
from tests.support.waiting import HANG_S


@pytest.mark.slow
async def test_streams_without_an_end_break_when_their_server_is_gone_without_a_word(
    database: str, conn: asyncpg.Connection, tmp_path: Path
) -> None:
    await add_queue(conn)
    await submit(conn)
    server = ServerProgram(database, tmp_path)
    try:
        await asyncio.to_thread(server.ready)
        with Client(server.address) as client:
            async with AsyncClient(server.address) as other:
                events = client.tail_events(after=0, follow=True)
                others = other.tail_events(after=0, follow=True)
                await asyncio.gather(asyncio.to_thread(next, events), anext(others))
                with stopped(server.process.pid):
                    async with asyncio.timeout(ASKED_AFTER_S + ANSWER_S + HANG_S):
                        ends = await asyncio.gather(
                            asyncio.to_thread(next, events), anext(others), return_exceptions=True
                        )
        assert [type(end) for end in ends] == [Unavailable, Unavailable]
    finally:
        server.kill()
