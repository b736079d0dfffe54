"""A proxy before PostgreSQL that counts the queries its clients send."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from tests.support.own_loop import stop_listening

_QUERY, _EXECUTE = b"Q", b"E"
"""Messages that make the server work: a simple query, and one run of a prepared statement."""


class QueryCounter:
    """Listens on a free loopback port and passes everything on to ``dsn``.

    ``queries`` counts what was asked since the start. Speaks plain text: ask for sslmode=disable.
    """

    def __init__(self, dsn: str) -> None:
        self.queries = 0
        self._url = urlsplit(dsn)
        self._server: asyncio.Server | None = None

    @property
    def dsn(self) -> str:
        """The address of the same database by way of this proxy."""
        assert self._server is not None, "it is not open"
        port = self._server.sockets[0].getsockname()[1]
        user = f"{self._url.username}{f':{self._url.password}' if self._url.password else ''}"
        return f"postgresql://{user}@127.0.0.1:{port}{self._url.path}?sslmode=disable"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None, "it is not open"
        await stop_listening(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await self._connect()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._count(reader, back))
                both.create_task(_pass_on(there, writer))
        except* (OSError, asyncio.IncompleteReadError):
            pass  # one side has ended, and so does the other
        finally:
            writer.close()
            back.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        folder = parse_qs(self._url.query).get("host")
        if folder:
            port = parse_qs(self._url.query)["port"][0]
            return await asyncio.open_unix_connection(f"{folder[0]}/.s.PGSQL.{port}")
        return await asyncio.open_connection(self._url.hostname, self._url.port)

    async def _count(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Pass whole messages on: the first has no type, the others begin with one byte of it."""
        kind = b""
        while True:
            length = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(length, "big") - 4)
            self.queries += kind in (_QUERY, _EXECUTE)
            back.write(kind + length + body)
            await back.drain()
            kind = await reader.readexactly(1)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while block := await reader.read(65_536):
        writer.write(block)
        await writer.drain()
    raise ConnectionResetError("the server has closed")
