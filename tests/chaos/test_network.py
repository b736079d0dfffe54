"""A link does to connections what its weather says, and counts what it did."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.chaos.network import Link, Weather, to_port
from tests.support.redis import free_port
from tests.support.waiting import eventually

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest_asyncio.fixture
async def echo() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that sends back what it gets, and a list of that."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            got.append(data)
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], got
    server.close()


@pytest.fixture
def link(echo: tuple[int, list[bytes]]) -> Iterator[Link]:
    made = Link(to_port(echo[0]))
    yield made
    made.close()


@pytest_asyncio.fixture
async def streams(link: Link) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"hello")
    assert await reader.read(5) == b"hello"
    yield reader, writer
    writer.transport.abort()


async def test_a_link_can_be_where_a_peer_says_that_it_is_found(
    echo: tuple[int, list[bytes]],
) -> None:
    port = free_port()
    link = Link(to_port(echo[0]), port=port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    assert (link.port, link.busy) == (port, 1)
    writer.transport.abort()
    link.close()


async def test_in_fair_weather_nothing_happens(link: Link, streams: Streams) -> None:
    assert link.hit == 0
    assert link.busy == 1


async def test_a_cut_ends_connections_and_lets_none_in(link: Link, streams: Streams) -> None:
    await asyncio.to_thread(link.turn, Weather.CUT)
    with pytest.raises(ConnectionResetError):
        await streams[0].readexactly(1)
    with pytest.raises(ConnectionResetError):
        await _knock(link.port)
    assert link.hit >= 2


async def test_still_weather_holds_everything_until_it_is_over(
    link: Link, streams: Streams, echo: tuple[int, list[bytes]]
) -> None:
    await asyncio.to_thread(link.turn, Weather.STILL)
    streams[1].write(b"later")
    await _is_hit(link)
    assert echo[1] == [b"hello"]
    await asyncio.to_thread(link.turn, Weather.FAIR)
    assert await streams[0].readexactly(5) == b"later"


async def test_mute_weather_loses_answers_only(
    link: Link, streams: Streams, echo: tuple[int, list[bytes]]
) -> None:
    await asyncio.to_thread(link.turn, Weather.MUTE)
    streams[1].write(b"asked")

    async def arrived() -> bool:
        return b"asked" in echo[1] and link.hit == 1

    await eventually(arrived, what="the question on the far side, and its answer on the way")
    await asyncio.to_thread(link.turn, Weather.FAIR)
    with pytest.raises(ConnectionResetError):  # a stream with a hole is of no use
        await streams[0].readexactly(1)


async def test_slow_weather_loses_nothing(link: Link, streams: Streams) -> None:
    await asyncio.to_thread(link.turn, Weather.SLOW)
    streams[1].write(b"slow")
    assert await streams[0].readexactly(4) == b"slow"
    assert link.hit >= 2


async def test_who_says_goodbye_is_heard_to_the_end(link: Link, streams: Streams) -> None:
    streams[1].write(b"last")
    streams[1].write_eof()
    assert await streams[0].read(4) == b"last"
    assert await streams[0].read() == b""

    async def free() -> bool:
        return link.busy == 0

    await eventually(free, what="the end of the connection")
    assert link.hit == 0


async def test_in_still_weather_nobody_hears_that_a_peer_has_gone(
    link: Link, streams: Streams
) -> None:
    await asyncio.to_thread(link.turn, Weather.STILL)
    streams[1].transport.abort()
    await _is_hit(link)
    assert link.busy == 1
    await asyncio.to_thread(link.turn, Weather.FAIR)

    async def free() -> bool:
        return link.busy == 0

    await eventually(free, what="the end of the connection")


async def _knock(port: int) -> None:
    reader, _ = await asyncio.open_connection("127.0.0.1", port)
    await reader.readexactly(1)


async def _is_hit(link: Link) -> None:
    async def hit() -> bool:
        return link.hit > 0

    await eventually(hit, what="the weather")
