"""What a copy of this process, made by ``fork``, must not hold open.

A handler in this process may fork, and its copy may outlive us: then nobody would see our end by
the end of a pipe, and nobody could listen where we did.
"""

import os
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet


class File(Protocol):
    """A file object or a socket."""

    def fileno(self) -> int:
        """Return its number. A file that was closed raises ValueError, a socket returns -1."""


_ours: WeakSet[File] = WeakSet()


def close_in_copies(file: File) -> None:
    """Have ``file`` closed in every copy from now on, for as long as it is open here."""
    _ours.add(file)


def _close_all() -> None:
    """Close them, in a copy. It forgets them: its own copies may have others by these numbers."""
    files = list(_ours)
    _ours.clear()
    for file in files:
        with suppress(ValueError, OSError):
            _close(file.fileno())


def _close(number: int) -> None:
    """Close a file but keep its number taken: who closes it once more must not close another's."""
    os.close(number)
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number, inheritable=False)
        os.close(null)


os.register_at_fork(after_in_child=_close_all)
