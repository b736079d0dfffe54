"""`jq-worker` as a program of its own, for tests that send it signals."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually_sync

HANDLERS = "tests.support.handlers"


class WorkerProgram:
    """A started worker on ``dsn``; its log is read from a file, line by line."""

    def __init__(self, dsn: str, folder: Path, *flags: str, **settings: object) -> None:
        self._log = folder / f"worker-{len(list(folder.iterdir()))}.log"
        env = {k: v for k, v in os.environ.items() if not k.startswith("JQ_")}
        env |= {f"JQ_{key.upper()}": str(value) for key, value in settings.items()}
        argv = [sys.executable, "-m", "jobqueue.cli.worker", "--log-level", "debug", *flags]
        if "--handlers" not in flags:
            argv += ["--handlers", HANDLERS, "--allow-shell"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                argv, env=env | {"JQ_DB_URL": dsn}, stdout=log, stderr=subprocess.STDOUT
            )

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has logged."""
        texts = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [json.loads(text) for text in texts if text.startswith("{")]

    def ready(self, count: int = 1) -> "WorkerProgram":
        """Wait until it, or each of its processes, serves."""

        def look() -> bool:
            return [line["message"] for line in self.lines()].count("ready") >= count

        eventually_sync(look, within_s=40, what=f"a ready worker ({self._log.name})")
        return self

    def send(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def ended(self, within_s: float = 30.0) -> int:
        """Wait for its end and return the exit code."""
        return self.process.wait(within_s)

    def kill(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def text(self) -> str:
        """Return the whole log."""
        return self._log.read_text(encoding="utf-8", errors="replace")
