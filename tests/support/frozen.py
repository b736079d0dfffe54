"""A PostgreSQL that takes connections and answers nothing, as one behind a dead network."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from jobqueue.embedded.server import EmbeddedPostgres


@contextmanager
def frozen(server: EmbeddedPostgres) -> Iterator[None]:
    """Stop every process of a server until the block ends."""
    os.kill(server.pid, signal.SIGSTOP)  # first, so that it starts no more
    backends = _children(server.pid)
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in (*backends, server.pid):
            os.kill(pid, signal.SIGCONT)


def _children(pid: int) -> list[int]:
    argv = ["ps", "-o", "pid=", "--ppid", str(pid)]
    return [int(word) for word in subprocess.check_output(argv).split()]
