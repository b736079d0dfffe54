"""A database that has several hosts: the first that answers and takes writes is connected to.

The driver takes a list of hosts, too, but gives all of them together the time of one, stops at one
that answers with a refusal, and is content with a standby.
"""

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

import asyncpg

from jobqueue.store.faults import DRIVER_ERRORS

_served: dict[str, str] = {}
"""The host that took us last, of each list: one that is gone is not waited for each time."""


async def connect_to_any(
    dsn: str,
    **options: Any,
) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect as ``asyncpg.connect`` does, to the first host of ``dsn`` that can be used.

    Each may take ``options["timeout"]``. Of several, one must take writes, unless the DSN or
    PGTARGETSESSIONATTRS asks for something else. Raises what the last one failed with.
    """
    hosts = each_host(dsn)
    last = _served.get(dsn, hosts[0])
    *others, final = sorted(hosts, key=lambda host: host != last)
    for host in others:
        try:
            return await _connect(dsn, host, options)
        except DRIVER_ERRORS:
            continue
    return await _connect(dsn, final, options)


async def _connect(
    dsn: str, host: str, options: dict[str, Any]
) -> "asyncpg.Connection[asyncpg.Record]":
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(host, **options)
    _served[dsn] = host
    return connection


def each_host(dsn: str) -> Sequence[str]:
    """Return a DSN for each host that ``dsn`` names; ``dsn`` itself when that is one."""
    parts = urlsplit(dsn)
    login, at, listed = parts.netloc.rpartition("@")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "," in listed:
        return [_written(parts, f"{login}{at}{host}", query) for host in listed.split(",")]
    hosts = query.get("host", "").split(",")
    if listed or len(hosts) == 1:
        return [dsn]
    ports = query.get("port", "").split(",")
    ports *= len(hosts) if len(ports) == 1 else 1
    return [
        _written(parts, parts.netloc, query | {"host": host, "port": port})
        for host, port in zip(hosts, ports, strict=False)
    ]


def _written(parts: SplitResult, netloc: str, query: dict[str, str]) -> str:
    if "PGTARGETSESSIONATTRS" not in os.environ:
        query = {"target_session_attrs": "read-write", **query}
    pairs = {key: value for key, value in query.items() if value}
    text = urlencode(pairs, safe="/", quote_via=quote)
    return f"{parts.scheme}://{netloc}{parts.path}" + (f"?{text}" if text else "")
