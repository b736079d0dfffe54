"""Becomes a program that ends with the demo, even a killed one: `leash PID PROGRAM …`."""

import os
import signal
import sys

from jobqueue.runtime.parent import end_with_parent


def main() -> None:
    """Ask to end with the parent, which survives the change of program, then change."""
    parent, *command = sys.argv[1:]
    end_with_parent(int(parent), signal.SIGTERM)
    os.execv(command[0], command)  # noqa: S606 - there is no shell on purpose


if __name__ == "__main__":
    main()
