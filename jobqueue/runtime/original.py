"""Tells a process from the copies that ``fork`` makes of it, without a question to the kernel."""

import mmap
import os
import sys
from collections.abc import Callable
from functools import partial

_WIPE_ON_FORK = 18
"""MADV_WIPEONFORK of Linux (madvise(2), since 4.14), which Python has no name for: in a copy, also
one that foreign code makes, such a page is all zeros."""

Original = Callable[[], object]
"""True in one process, false in each copy of it."""


def original() -> Original:
    """Return what is true here, and false in each copy of this process made from now on.

    To ask for the number of the process, twice a job, was a twelfth of what a job cost the worker's
    own code (docs/adr/0013).
    """
    global _original  # noqa: PLW0603 - there is one process
    if not _original():  # we are a copy ourselves
        _original = _marked() or _numbered()
    return _original


def _marked() -> Original | None:
    if sys.platform != "linux":
        return None
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page[0] = 1
    try:
        page.madvise(_WIPE_ON_FORK)
    except OSError:  # a kernel that does not know it
        return None
    return partial(page.__getitem__, 0)


def _numbered() -> Original:
    here = os.getpid()
    return lambda: os.getpid() == here


_original: Original = bool
