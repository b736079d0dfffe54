"""Starts the three programs as their users do, and stops whatever it started."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Self

_READY_WITHIN_S = 60.0
_STOP_WITHIN_S = 15.0
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoError(Exception):
    """The demo cannot go on."""


class Interrupts:
    """Turns signals into a request that is honoured between steps.

    An exception out of a signal handler could come between a program's start and our knowing of it.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()

    def listen(self) -> None:
        """Take Ctrl-C and what else ends programs."""
        for number in _ENDING_SIGNALS:
            signal.signal(number, self._ask)

    def pause(self, seconds: float) -> None:
        """Wait. Raises KeyboardInterrupt once the end was asked for."""
        if self._asked.wait(seconds):
            raise KeyboardInterrupt

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked.set()


class Program:
    """A started program; its log is a file with one JSON object a line."""

    def __init__(self, argv: list[str], log: Path, env: Mapping[str, str]) -> None:
        self.log = log
        leash = [sys.executable, "-m", "examples.demo.leash", str(os.getpid())]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*leash, *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,  # Ctrl-C is for us, who then stop it in order
            )
        self.pid = self._process.pid

    def await_ready(self, interrupts: Interrupts) -> dict[str, Any]:
        """Return the log line that says it serves. Raises DemoError when it does not come."""
        for _ in range(int(_READY_WITHIN_S / 0.05)):
            ended = self._process.poll() is not None
            for line in self.log.read_text(errors="replace").splitlines():
                if line.startswith("{") and '"ready"' in line:
                    return dict(json.loads(line))
            if ended:
                break
            interrupts.pause(0.05)
        raise DemoError(f"a program did not start:\n{self.log.read_text(errors='replace')}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal; harmless when it has ended."""
        self._process.send_signal(number)

    @property
    def exit_code(self) -> int | None:
        """What it ended with, minus the signal that ended it; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order, and without mercy when that takes too long."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()


class Stage:
    """A folder and the programs that run in it; all are gone after the `with`."""

    def __init__(self, settings: Mapping[str, str], interrupts: Interrupts) -> None:
        self.address = ""
        self._interrupts = interrupts
        self._folder = TemporaryDirectory(prefix="jobqueue-demo-", ignore_cleanup_errors=True)
        # As root the database may run as nobody, who must be able to pass through.
        Path(self._folder.name).chmod(0o711)
        self._programs: list[Program] = []
        ours = {key: value for key, value in os.environ.items() if not key.startswith("JQ_")}
        self._env = ours | dict(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for program in reversed(self._programs):
            program.stop()
        self._folder.cleanup()

    def start_server(self) -> None:
        """Start jq-server with its own PostgreSQL, and learn its address."""
        ready = self.start("jq-server").await_ready(self._interrupts)
        self.address = f"127.0.0.1:{ready['grpc_port']}"

    def start(self, name: str, *flags: str) -> Program:
        """Start a program on the embedded database; it may not be ready yet."""
        folder = Path(self._folder.name)
        log = folder / f"{len(self._programs)}-{name}.log"
        argv = [_script(name), "--embedded", "--data-dir", str(folder / "pg"), *flags]
        self._programs.append(Program(argv, log, self._env))
        return self._programs[-1]

    def ctl(self, *arguments: str) -> str:
        """Run jq-ctl and return what it printed. Raises DemoError when it fails."""
        ended = subprocess.run(
            [_script("jq-ctl"), *arguments],
            env=self._env | {"JQ_SERVER_ADDR": self.address},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise DemoError(f"jq-ctl {' '.join(arguments)}: {ended.stderr}")
        return ended.stdout


def _script(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)
