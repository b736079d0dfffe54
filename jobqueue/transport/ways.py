"""The connections of one caller, which outlives its certificates (R-9.1).

New files are looked for when the server cannot be reached, not when they come: a connection that
works needs none, and they may come before the server trusts them.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import grpc

from jobqueue.errors import FailedPrecondition, JobQueueError, Unavailable
from jobqueue.transport.certificates import CertificateFiles, Told
from jobqueue.transport.faults import translate
from jobqueue.transport.route import Route, credentials

C = TypeVar("C")


@dataclass(slots=True, eq=False)
class Way(Generic[C]):
    """One connection, and how many calls are under way on it."""

    connection: C
    calls: int = 0


def closed_meanwhile() -> Unavailable:
    """Return what ends a call whose client is closed."""
    return Unavailable("the client was closed during the call", reason="CLIENT_CLOSED")


def _tell_nobody(fault: str) -> None:
    """Hear of changed files and do nothing."""


class Ways(Generic[C]):
    """Where each call begins: on the newest connection. Threads may share it.

    After a call that did not reach the server, certificate files that were renewed meanwhile make a
    new connection. Who doubts the newest one may replace it. An older one is left open until its
    last call has ended.
    """

    def __init__(
        self,
        route: Route,
        connect: Callable[[grpc.ChannelCredentials | None], C],
        told: Told = _tell_nobody,
    ) -> None:
        """``connect`` is called when it is needed. Raises InvalidArgument for unreadable files."""
        self._address = route.address
        self._connect = connect
        self._lock = threading.Lock()
        # Before they are read: files that change meanwhile are then read again.
        self._files = CertificateFiles(route.tls, told) if route.tls else None
        self._identity = credentials(route.tls) if route.tls else None
        self._ways: list[Way[C]] = []
        self._doubted = self._closed = False

    def begin(self) -> Way[C]:
        """Return the way for one call; ``end`` is to be called after it.

        Raises FailedPrecondition with the reason CLIENT_CLOSED after ``close``.
        """
        with self._lock:
            if self._closed:
                raise FailedPrecondition("the client is closed", reason="CLIENT_CLOSED")
            if self._renewed() or not self._ways:
                self._ways.append(Way(self._connect(self._identity)))
            way = self._ways[-1]
            way.calls += 1
            return way

    def end(self, way: Way[C]) -> Sequence[C]:
        """End a call; return the connections that nobody needs any more, to be closed."""
        with self._lock:
            way.calls -= 1
            done = [old for old in self._ways[:-1] if not old.calls]
            self._ways = [kept for kept in self._ways if kept not in done]
            return [old.connection for old in done]

    def spare(self, way: Way[C]) -> C | None:
        """Return one more connection, to ``replace`` this way; None when it is not the newest."""
        with self._lock:
            return self._connect(self._identity) if way is self._ways[-1] else None

    def replace(self, way: Way[C], spare: C) -> bool:
        """Begin calls on ``spare`` from now on; tell whether: not when ``way`` has a successor."""
        with self._lock:
            if way is not self._ways[-1]:
                return False
            self._ways.append(Way(spare))
            return True

    def failed(self, error: grpc.RpcError) -> JobQueueError:
        """Return what the end of a call means, and take note when the server was not reached."""
        ours = translate(error, self._address)
        if self._closed and isinstance(ours, Unavailable):
            return closed_meanwhile()
        self._doubted = self._doubted or isinstance(ours, Unavailable)
        return ours

    def close(self) -> Sequence[C]:
        """Let no call begin from now on; return every connection there is, to be closed."""
        with self._lock:
            self._closed = True
            return [way.connection for way in self._ways]

    def _renewed(self) -> bool:
        doubted, self._doubted = self._doubted, False
        renewed = self._files.renewed() if doubted and self._files else None
        self._identity = renewed or self._identity
        return renewed is not None
