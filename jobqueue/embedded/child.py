"""The server's process, owned by a thread that lives as long as it does."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from jobqueue.embedded.identity import clean_environment
from jobqueue.errors import EmbeddedError

# Each signal ends PostgreSQL more roughly than the one before.
_STOP_STEPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))


class Child:
    """The server's process, started and awaited in a thread of its own.

    The kernel sends the parent-death signal when the starting *thread* ends, so that thread has
    to live as long as the server does, whoever called `start`.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.ended = threading.Event()
        self.pid = 0
        self._command = command
        self._log = log
        self._started = threading.Event()
        self._fault: OSError | None = None
        thread = threading.Thread(target=self._run, name="embedded-postgres", daemon=True)
        thread.start()
        self._started.wait()
        if self._fault is not None:
            raise EmbeddedError(f"PostgreSQL did not start: {self._fault}") from self._fault

    def stop(self) -> None:
        """End the process, more roughly each time it does not go."""
        for step, patience_s in _STOP_STEPS:
            if self.ended.is_set():
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, step)
            self.ended.wait(patience_s)

    def _run(self) -> None:
        try:
            with self._log.open("wb") as log:
                process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=clean_environment(),
                    # Ctrl-C at the terminal is for our parent, which then stops us in order.
                    start_new_session=True,
                )
        except OSError as error:
            self._fault = error
            self._started.set()
            return
        self.pid = process.pid
        self._started.set()
        process.wait()
        self.ended.set()
