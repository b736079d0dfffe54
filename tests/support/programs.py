"""The three programs as people run them, for tests that send signals or see only the outside."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import psutil

from tests.support.waiting import eventually_sync

HANDLERS = "tests.support.handlers"
FREE_PORTS: dict[str, object] = {"health_port": 0, "metrics_port": 0}

_SCRIPTS = Path(sys.executable).parent
_READY_WITHIN_S = 90.0


def environment(**settings: object) -> dict[str, str]:
    """Return the environment without settings of ours, plus these (``lease_duration_s=3``)."""
    return _environment(("JQ_", "COVERAGE_"), settings)


def measured_environment(**settings: object) -> dict[str, str]:
    """Return the same for a program that counts for the coverage.

    That makes a start cost half as much again, and what no test process runs itself is in workers
    and their keepers alone.
    """
    return _environment(("JQ_",), settings)


def _environment(dropped: tuple[str, ...], settings: dict[str, object]) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return env | {f"JQ_{key.upper()}": str(value) for key, value in settings.items()}


def is_stopped(pid: int) -> bool:
    """Tell whether a process has met a SIGSTOP: it is stopped some time after it is sent."""
    return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)


class Program:
    """A started program; its log is a file in ``folder``, read line by line."""

    def __init__(self, argv: list[str], folder: Path, env: dict[str, str]) -> None:
        self._log = folder / f"{Path(argv[0]).name}-{len(list(folder.iterdir()))}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT)

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has logged; a line that is being written is left out."""
        whole, _, _ = self.text().rpartition("\n")
        return [json.loads(text) for text in whole.splitlines() if text.startswith("{")]

    def says(self, message: str) -> bool:
        """Tell whether a line of this message was logged."""
        return any(line.get("message") == message for line in self.lines())

    def ready(self, count: int = 1, *, within_s: float = _READY_WITHIN_S) -> Self:
        """Wait until it, or each of its processes, serves."""

        def look() -> bool:
            found = [line["message"] for line in self.lines()].count("ready") >= count
            ended = self.process.poll()
            assert found or ended is None, f"it ended with {ended}:\n{self.text()}"
            return found

        eventually_sync(look, within_s=within_s, what=f"readiness ({self._log.name})")
        return self

    def send(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def stands_still(self) -> bool:
        """Tell whether it is stopped."""
        return is_stopped(self.process.pid)

    def ended(self, within_s: float = 30.0) -> int:
        """Wait for its end and return the exit code."""
        return self.process.wait(within_s)

    def kill(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def size(self) -> int:
        """Return how many bytes it has logged."""
        return self._log.stat().st_size

    def text(self) -> str:
        """Return the whole log."""
        return self._log.read_text(encoding="utf-8", errors="replace")


class WorkerProgram(Program):
    """A `jq-worker` on ``dsn``, with the handlers of the tests unless others are named."""

    def __init__(self, dsn: str, folder: Path, *flags: str, **settings: object) -> None:
        argv = [str(_SCRIPTS / "jq-worker"), "--log-level", "debug", *flags]
        if "--handlers" not in flags:
            argv += ["--handlers", HANDLERS, "--allow-shell"]
        env = measured_environment(db_url=dsn, **{**FREE_PORTS, **settings})
        super().__init__(argv, folder, env)


class RemoteWorkerProgram(Program):
    """A `jq-worker` that knows only a server, otherwise as ``WorkerProgram``."""

    def __init__(self, address: str, folder: Path, *flags: str, **settings: object) -> None:
        argv = [str(_SCRIPTS / "jq-worker"), "--log-level", "debug", *flags]
        if "--handlers" not in flags:
            argv += ["--handlers", HANDLERS, "--allow-shell"]
        free = {**FREE_PORTS, **settings}
        super().__init__(argv, folder, measured_environment(server_addr=address, **free))


class ServerProgram(Program):
    """A `jq-server` on ``dsn``, on a free port."""

    def __init__(self, dsn: str, folder: Path, *flags: str, **settings: object) -> None:
        argv = [str(_SCRIPTS / "jq-server"), "--grpc-port", "0", *flags]
        super().__init__(argv, folder, environment(db_url=dsn, **{**FREE_PORTS, **settings}))

    @property
    def address(self) -> str:
        """``HOST:PORT`` of a server that is ready."""
        port = next(line["grpc_port"] for line in self.lines() if line["message"] == "ready")
        return f"127.0.0.1:{port}"


def dry_run(**settings: object) -> subprocess.CompletedProcess[bytes]:
    """Let `jq-server` check settings, to its end."""
    argv = [str(_SCRIPTS / "jq-server"), "--dry-run"]
    env = environment(**settings)
    return subprocess.run(argv, env=env, capture_output=True, timeout=60, check=False)


def ctl_command(*arguments: str) -> list[str]:
    """Return the command line of `jq-ctl`."""
    return [str(_SCRIPTS / "jq-ctl"), *arguments]


def run_ctl(
    address: str,
    *arguments: str,
    stdin: bytes = b"",
    within_s: float = 60.0,
    **variables: object,
) -> subprocess.CompletedProcess[bytes]:
    """Run `jq-ctl` against a server to its end; ``variables`` as for ``environment``."""
    return subprocess.run(
        ctl_command(*arguments),
        env=environment(server_addr=address, **variables),
        input=stdin,
        capture_output=True,
        timeout=within_s,
        check=False,
    )
