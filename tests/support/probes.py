"""Asks the health ports of running programs."""

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

from tests.support.programs import Program
from tests.support.waiting import eventually

OK, UNAVAILABLE = 200, 503


def probe(program: Program, path: str) -> tuple[int, dict[str, Any]]:
    """Return status and body."""
    port = next(line["health_port"] for line in program.lines() if "health_port" in line)
    return probe_port(port, path)


def probe_port(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """Return status and body of a program whose port is known without its log."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


async def becomes(program: Program, path: str, status: int) -> dict[str, Any]:
    """Wait for a status and return the body that came with it."""

    async def look() -> dict[str, Any] | None:
        found, body = await asyncio.to_thread(probe, program, path)
        return body if found == status else None

    body = await eventually(look, within_s=40, what=f"{path} {status}")
    assert body is not None
    return body
