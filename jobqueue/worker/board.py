"""What each process of a family runs, in memory that they share.

The parent reads it and the children write it. A child whose loop stands still, or that is slow,
leaves its last word there, which is the truth: what it ran it still runs.
"""

import os
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from jobqueue.domain.load import IDLE, Load, together
from jobqueue.runtime.service import Service

REPORT_S = 1.0

_ENTRY = struct.Struct("<qqd")  # process id, jobs, since when
_EMPTY = bytes(_ENTRY.size)


class Board:
    """The parent's side. Belongs to the process that made it, and lives as long."""

    def __init__(self, places: int) -> None:
        self.fd = _shared_memory()
        self._places = places

    def place(self, number: int) -> str:
        """Return what a child needs to know to report under ``number``, counted from 0."""
        return f"{self.fd}:{number}"

    def load(self) -> Load:
        """Return what all children run together."""
        entries = (self._entry(number) for number in range(self._places))
        return together(load for _, load in entries)

    def forget(self, pid: int) -> None:
        """Take a process that has ended off the board."""
        for number in range(self._places):
            if self._entry(number)[0] == pid:
                os.pwrite(self.fd, _EMPTY, number * _ENTRY.size)

    def close(self) -> None:
        """Give the memory back, as far as this process is concerned."""
        os.close(self.fd)

    def _entry(self, number: int) -> tuple[int, Load]:
        raw = os.pread(self.fd, _ENTRY.size, number * _ENTRY.size)
        if len(raw) < _ENTRY.size:
            return 0, IDLE  # nobody has written so far yet
        pid, jobs, since = _ENTRY.unpack(raw)
        return pid, Load(jobs, since)


@dataclass(frozen=True, slots=True)
class Place:
    """A child's side: where it writes."""

    fd: int
    number: int

    @classmethod
    def taken_from(cls, text: str) -> "Place":
        """Return the place that ``Board.place`` told of; nothing else inherits it."""
        fd, number = map(int, text.split(":"))
        os.set_inheritable(fd, False)
        return cls(fd, number)

    def report(self, load: Load) -> None:
        """Replace what stands there."""
        entry = _ENTRY.pack(os.getpid(), load.jobs, load.since)
        os.pwrite(self.fd, entry, self.number * _ENTRY.size)


class LoadReport(Service):
    """Writes what this process runs on the board."""

    def __init__(self, place: Place, load: Callable[[], Load]) -> None:
        super().__init__("load-report", interval_s=REPORT_S)
        self._place = place
        self._load = load

    async def turn(self) -> float | None:
        """Write it."""
        self._place.report(self._load())
        return None


def _shared_memory() -> int:
    """Return a file without a name, in memory where that can be: a container may have no disk."""
    if sys.platform == "linux":
        return os.memfd_create("jobqueue-board")
    else:  # noqa: RET505 - the type checker skips the branch of the other platform
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
