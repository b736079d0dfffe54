"""A process that must not outlive its parent says so, first thing."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Ask Linux to send ``number`` to this process when ``parent`` dies; elsewhere do nothing.

    Raises SystemExit when ``parent`` is dead already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(1)
