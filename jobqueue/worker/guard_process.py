"""Kills what a worker leaves behind when it is killed itself. Runs as a program of its own.

Reads ``+GROUP`` and ``-GROUP`` lines from stdin. At its end, that is when the worker is gone in
whatever way, every group still on the list gets SIGKILL. Needs the standard library only, so that
it starts fast and stays small.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Keep the list until the worker is gone, then act on it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        (groups.add if line[0] == "+" else groups.discard)(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
