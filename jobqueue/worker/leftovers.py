"""What a handler left in its process that would harm the next job there, or outlive its attempt."""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from jobqueue.worker.guard_process import processes

_PR_SET_CHILD_SUBREAPER = 36
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


def adopt_orphans() -> None:
    """Become the parent of whatever a handler starts twice removed; only Linux can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Leftovers:
    """Compares the process with what it was before its first job."""

    def __init__(self) -> None:
        """Look at it: what importing the handlers did is the process's own."""
        self._limits = _limits()
        self._streams = _streams()
        self._children = _children() if _any_child() else set()

    def clear(self) -> bool:
        """Call off timers, whose signals end processes; return whether more is left than that."""
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        same = _limits() == self._limits and _streams() == self._streams
        return self._has_children() or not same

    def _has_children(self) -> bool:
        return _any_other_child(self._children) if self._children else _any_child()


def _any_child() -> bool:
    """Return whether a child lives; the dead ones, for which nobody waited, are let go."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def _any_other_child(own: AbstractSet[int]) -> bool:
    """Do the same beside children whose exit codes are somebody's: theirs are not taken."""
    try:
        names = [each.name for each in Path("/proc").iterdir()]
    except OSError:
        return True  # not a descriptor is left to look with
    others = {int(name) for name in names if name.isdigit()} - own
    living = [pid for pid in others if _lives(pid)]  # all are asked, so that all the dead can go
    return bool(living)


def _lives(pid: int) -> bool:
    """Return whether this is a child that lives; one that is dead is let go."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _children() -> set[int]:
    return {each.kin.pid for each in processes() if each.parent == os.getpid()}


def _limits() -> Sequence[tuple[int, int]]:
    return [resource.getrlimit(each) for each in _LIMITS]


def _streams() -> Sequence[tuple[int, int] | None]:
    """What a stream is that was closed, the next file that is opened decides."""
    return [_file(fd) for fd in range(3)]


def _file(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino
