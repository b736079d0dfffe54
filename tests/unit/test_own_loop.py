"""What tests' own servers leave behind when they end: nothing."""

import asyncio
import gc
import socket

import pytest

from tests.support.own_loop import OwnLoop, stop_listening


@pytest.mark.parametrize("turns", range(4))
async def test_who_is_at_the_door_when_it_closes_is_let_in_or_turned_away(turns: int) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()):
        for _ in range(turns):
            await asyncio.sleep(0)  # accepting takes some turns of the loop
        await stop_listening(server)
        await asyncio.sleep(0)
    gc.collect()  # what was left open warns here, and warnings fail


def test_the_end_waits_for_what_was_begun_meanwhile() -> None:
    own, done = OwnLoop(), []

    async def work(more: int) -> None:
        await asyncio.sleep(0.01)
        if more:
            later.add(asyncio.create_task(work(more - 1)))
        done.append(more)

    later: set[asyncio.Task[None]] = set()
    own.do(work(3))
    own.end()
    assert done == [3, 2, 1, 0]
