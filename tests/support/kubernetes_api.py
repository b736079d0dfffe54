"""An API server of Kubernetes with one pod in it, behind TLS. It takes what a real one takes.

It also misbehaves on request, in each way that a server or the network in between can.
"""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import parse_headers
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

from jobqueue.kubernetes.pod import Pod, find_pod
from jobqueue.runtime.ending import end
from jobqueue.runtime.tasks import own_task
from tests.support.certificates import Authority
from tests.support.own_loop import stop_listening
from tests.support.waiting import HANG_S, eventually

ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
NAMESPACE, POD = "jobs", "jq-worker-7d4b9-x2x4z"
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods/{POD}?fieldManager=jq-worker"
_NUMBER = re.compile(r"0|-?[1-9]\d{0,9}")


@dataclass(frozen=True)
class Request:
    """What somebody sent."""

    line: str
    headers: Mapping[str, str]
    body: bytes


Behaviour: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Cluster:
    """The server, its pod's annotations, and the folder that is mounted into the pod."""

    folder: Path
    port: int = 0
    token: str = ""
    behaviour: Behaviour | None = None  # None: does what it is asked
    requests: list[Request] = field(default_factory=list)
    costs: list[str] = field(default_factory=list)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    def rotate(self, token: str) -> None:
        """Accept only this token from now on, and mount it."""
        replacement = self.folder / "token.new"
        replacement.write_text(f"{token}\n", encoding="ascii")
        self.token = token
        replacement.replace(self.folder / "token")

    def env(self) -> dict[str, str]:
        """Return what Kubernetes puts into the environment of the pod."""
        return {
            "POD_NAME": POD,
            "POD_NAMESPACE": NAMESPACE,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
        }

    def pod(self) -> Pod:
        """Return the pod as the worker in it finds it."""
        return find_pod(self.env(), self.folder)

    async def shows(self, cost: int, *, within_s: float = HANG_S) -> None:
        """Wait until the annotation is ``cost``."""

        async def look() -> bool:
            return self.costs[-1:] == [str(cost)]

        await eventually(look, within_s=within_s, what=f"cost {cost}; seen: {self.costs}")

    async def is_asked(self, times: int, *, within_s: float = HANG_S) -> None:
        """Wait for the n-th request."""

        async def look() -> bool:
            return len(self.requests) >= times

        await eventually(look, within_s=within_s, what=f"request {times}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        self._serving.add(own_task())
        try:
            request = await _read(reader)
            self.requests.append(request)
            await (self.behaviour or self._obey(request))(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever asked is gone
        finally:
            self._serving.discard(own_task())
            writer.close()

    async def close(self) -> None:
        """Let go of whoever still waits for an answer."""
        for task in tuple(self._serving):
            await end(task)

    def _obey(self, request: Request) -> Behaviour:
        if request.line != f"PATCH {PATH} HTTP/1.1":
            return refuses(404, "there is nothing")
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return refuses(401, "Unauthorized")
        if request.headers.get("content-type") != "application/merge-patch+json":
            return refuses(415, "the body of the request was in an unknown format")
        cost = json.loads(request.body)["metadata"]["annotations"][ANNOTATION]
        if not isinstance(cost, str) or not _NUMBER.fullmatch(cost) or int(cost) >= 2**31:
            return refuses(422, "Invalid value")
        self.costs.append(cost)
        return answers(200, {"kind": "Pod", "metadata": {"annotations": {ANNOTATION: cost}}})


@asynccontextmanager
async def cluster(folder: Path, *hosts: str) -> AsyncIterator[Cluster]:
    """Run an API server whose CA and first token are mounted at ``folder``.

    Its certificate is for the loopback, or for ``hosts``.
    """
    folder.mkdir()
    authority = Authority(folder, "ca")
    (folder / "ca.crt").write_bytes(authority.path.read_bytes())
    made = Cluster(folder)
    made.rotate("first-token")
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=_tls(authority, *hosts))
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        await stop_listening(server)
        await made.close()


def answers(status: int, body: Any, **headers: str) -> Behaviour:
    """Return a behaviour: a whole answer, of a server that closes."""
    content = json.dumps(body).encode()
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(content)}\r\n{extra}\r\n"
    return sends(head.encode() + content)


def refuses(status: int, message: str, **headers: str) -> Behaviour:
    """Return a behaviour: a refusal in the form of Kubernetes."""
    return answers(status, {"kind": "Status", "message": message, "code": status}, **headers)


def sends(raw: bytes) -> Behaviour:
    """Return a behaviour: these bytes, then the end."""

    async def behave(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return behave


async def hangs(_writer: asyncio.StreamWriter) -> None:
    """Say nothing for ever."""
    await asyncio.Event().wait()


async def trickles(writer: asyncio.StreamWriter) -> None:
    """Send a header without end, a little at a time."""
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def floods(writer: asyncio.StreamWriter) -> None:
    """Send an answer without end, as fast as it is taken."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65_536)
        await writer.drain()


async def breaks(writer: asyncio.StreamWriter) -> None:
    """Cut the connection."""
    writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Request:
    line, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
    headers = {name.lower(): value for name, value in parse_headers(BytesIO(rest)).items()}
    return Request(line.decode(), headers, await reader.readexactly(int(headers["content-length"])))


def _tls(authority: Authority, *hosts: str) -> ssl.SSLContext:
    pair = authority.issue("api", *(hosts or ("localhost", "127.0.0.1")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    return context
