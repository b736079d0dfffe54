"""Writes one annotation of one pod through the API server. Needs no client library."""

import asyncio
import json
import re
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException, parse_headers
from io import BytesIO

from jobqueue.errors import Unavailable
from jobqueue.kubernetes.pod import Pod
from jobqueue.runtime.version import version

ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
TIMEOUT_S = 5.0
"""For all of it, from the first packet to the last: a server that trickles gets no more."""

_ANSWER_BYTES = 64 * 1024
_SAID_LENGTH = 300
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})\b")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server answered. ``said`` is its own explanation of a refusal, or empty."""

    status: int
    retry_after_s: float = 0.0
    said: str = ""


class PodApi:
    """Asks the API server. Reads the token and the CA anew each time, as both are exchanged."""

    def __init__(self, pod: Pod, *, timeout_s: float = TIMEOUT_S) -> None:
        self.pod = pod
        self._timeout_s = timeout_s

    async def set_deletion_cost(self, cost: int) -> Answer:
        """Set the annotation. Raises Unavailable when there is no answer; then nothing is known."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return _read(await self._exchange(_request(self.pod, cost)))
        except TimeoutError as error:
            raise Unavailable(f"no answer within {self._timeout_s:g} s") from error
        except (OSError, HTTPException) as error:
            raise Unavailable(str(error) or type(error).__name__) from error

    async def _exchange(self, request: bytes) -> bytes:
        """Send a request and return all that comes, up to a limit, until the server closes."""
        pod = self.pod
        reader, writer = await asyncio.open_connection(pod.host, pod.port, ssl=pod.tls())
        try:
            writer.write(request)
            raw = b""
            while (left := _ANSWER_BYTES - len(raw)) and (piece := await reader.read(left)):
                raw += piece
            return raw
        finally:
            # Not closed in good order: that would wait for a server that may have gone silent.
            writer.transport.abort()


def _request(pod: Pod, cost: int) -> bytes:
    body = json.dumps({"metadata": {"annotations": {ANNOTATION: str(cost)}}}).encode()
    host = f"[{pod.host}]" if ":" in pod.host else pod.host
    head = (
        f"PATCH /api/v1/namespaces/{pod.namespace}/pods/{pod.name}?fieldManager=jq-worker HTTP/1.1",
        f"Host: {host}:{pod.port}",
        f"Authorization: Bearer {pod.token()}",
        f"User-Agent: jq-worker/{version()}",
        "Accept: application/json",
        "Content-Type: application/merge-patch+json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode("ascii") + body


def _read(raw: bytes) -> Answer:
    stream = BytesIO(raw)
    found = _STATUS.match(stream.readline())
    if found is None:
        raise Unavailable("the answer is not HTTP" if raw else "the connection was closed")
    return Answer(int(found[1]), _retry_after_s(parse_headers(stream)), _said(stream.read()))


def _retry_after_s(headers: Message) -> float:
    """Return the seconds; the API server sends no dates."""
    text = headers.get("Retry-After", "").strip()
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0


def _said(body: bytes) -> str:
    """Return the message of a Status object; it may be framed in chunks, or be none."""
    text = body.decode(errors="replace")
    try:
        status, _ = json.JSONDecoder().raw_decode(text[text.find("{") :])
    except (ValueError, RecursionError):
        return ""
    said = status.get("message") if isinstance(status, dict) else None
    return said[:_SAID_LENGTH] if isinstance(said, str) else ""
