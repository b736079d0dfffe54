"""A worker that is killed after it started a program and before its guard hears of it.

Started as ``python -m tests.support.dies_in_the_gap FILE PIDFILE``: the program makes FILE.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from jobqueue.domain.limits import Limits
from jobqueue.worker.attempt import Attempt
from jobqueue.worker.guard import Guard
from jobqueue.worker.programs import run_program
from tests.support.recording_leases import leased


class Gap(Guard):
    """A guard that its worker never gets to tell anything."""

    def add(self, group: int, mark: str) -> None:
        """Die of SIGKILL, leaving the number of the group behind."""
        Path(sys.argv[2]).write_text(str(group))
        os.kill(os.getpid(), signal.SIGKILL)


class Unwatched:
    """Nobody watches the attempt."""

    kill_grace_s = 1.0

    def begun(self, _attempt: Attempt) -> None: ...

    def stopped(self, _attempt: Attempt) -> None: ...


async def main() -> None:
    """Run the program."""
    job = leased()
    task = asyncio.current_task()
    assert task is not None
    attempt = Attempt(job, task, None, Unwatched())
    await run_program(["touch", sys.argv[1]], None, attempt, Limits(), Gap())


if __name__ == "__main__":
    asyncio.run(main())
