import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.soak.processes import of_process, pss_of

_LEAKS = 200


@contextmanager
def leaking(leak: str, times: int) -> Iterator[psutil.Process]:
    """Run a process that has leaked so often, until the block ends."""
    code = (
        f"import sys, tests.soak.work as work; [work.{leak}() for _ in range({times})];"
        " print('done', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"done\n"
        yield psutil.Process(process.pid)
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("leak", "what", "least"),
    [
        ("leak_descriptors", "descriptors", _LEAKS),
        ("leak_threads", "threads", _LEAKS),
        ("leak_memory", "RSS", _LEAKS / 16 * 0.9),
        ("leak_memory", "PSS", _LEAKS / 16 * 0.9),
    ],
)
def test_what_a_process_leaks_is_seen_in_its_measure(leak: str, what: str, least: float) -> None:
    with leaking(leak, 0) as clean, leaking(leak, _LEAKS) as dirty:
        before, after = of_process("it", clean), of_process("it", dirty)
    grown = after["it", what] - before["it", what]
    assert least <= grown < least * 1.3


def test_nothing_is_held_by_a_process_that_is_gone() -> None:
    process = psutil.Popen([sys.executable, "-c", ""])
    process.wait()
    assert pss_of(process) == 0
