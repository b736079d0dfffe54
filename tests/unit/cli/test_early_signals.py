"""A signal that comes while a program starts, or is at its end, ends it at once and as asked."""

import signal
import subprocess
import sys

import pytest

from tests.support.waiting import HANG_S

# The pair of sockets is the first that uvloop makes when it starts to run.
MEETS_A_STARTING_LOOP = """
import signal, socket, sys
from jobqueue.cli import common, {program} as program

common.begin()
pair = socket.socketpair

def signalled(*args):
    signal.raise_signal({number})
    return pair(*args)

socket.socketpair = signalled

async def work():
    print("worked")
    return 0

program._run(work())
sys.exit(9)
"""

MEETS_THE_END = """
import signal, sys
from jobqueue.cli import common, {program} as program
from jobqueue.runtime.shutdown import ShutdownSignals

common.begin()

async def work():
    with ShutdownSignals():
        print("worked", flush=True)
    signal.raise_signal({number})
    sys.exit(9)

program._run(work())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", ["server", "worker"])
@pytest.mark.parametrize(
    ("source", "said"), [(MEETS_A_STARTING_LOOP, ""), (MEETS_THE_END, "worked\n")]
)
def test_a_signal_outside_the_listening_ends_the_program_with_0(
    source: str, said: str, program: str, number: int
) -> None:
    argv = [sys.executable, "-c", source.format(program=program, number=int(number))]
    ended = subprocess.run(argv, timeout=HANG_S, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")
