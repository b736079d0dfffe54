"""A PostgreSQL that takes connections and answers nothing, as one behind a dead network."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from jobqueue.embedded.server import EmbeddedPostgres


@contextmanager
def frozen(server: EmbeddedPostgres) -> Iterator[None]:
    """Stop every process of a server until the block ends."""
    with stopped(server.pid), ExitStack() as backends:  # it first, so that it starts no more
        for pid in _children(server.pid):
            backends.enter_context(stopped(pid))
        yield


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop one process until the block ends."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _children(pid: int) -> list[int]:
    argv = ["ps", "-o", "pid=", "--ppid", str(pid)]
    return [int(word) for word in subprocess.check_output(argv).split()]
