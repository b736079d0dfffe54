"""The end of `jq-worker` when a handler has left something in a thread."""

import subprocess
import sys

import pytest

LEAVES_A_THREAD = """
import asyncio, sys, time
from jobqueue.cli import worker

async def work():
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
    return 0

worker.LINGER_S = 0.2
worker._exit(worker._run(work(), int(sys.argv[1])))
"""


@pytest.mark.parametrize("done", [0, 4])
def test_a_call_that_hangs_in_a_thread_keeps_no_worker_from_ending_as_it_was_asked(
    done: int,
) -> None:
    argv = [sys.executable, "-c", LEAVES_A_THREAD, str(done)]
    assert subprocess.run(argv, timeout=60, check=False).returncode == done
