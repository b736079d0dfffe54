"""Kills what a worker leaves behind when it is killed itself. Runs as a program of its own.

Reads ``+GROUP MARK`` and ``-GROUP`` lines from stdin. At its end, that is when the worker is gone
in whatever way, every group still on the list gets SIGKILL, and so does whatever left it. Needs
the standard library only, so that it starts fast and stays small; the worker imports it for
``end_strays``.
"""

import contextlib
import errno
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

MARK = "JOBQUEUE_MARK"
"""The variable by which a process is known, also when it has left group, session and parent."""

_PREFIX = f"{MARK}=".encode()
_UNMARKED = ""
_NEED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_STRAYS_LIMIT_S = 1.0
_LOOK_AGAIN_S = 0.002


def main() -> None:
    """Keep the list until the worker is gone, then act on it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    marks: dict[int, str] = {}
    for line in sys.stdin:
        group, _, mark = line[1:].strip().partition(" ")
        if line[0] == "+":
            marks[int(group)] = mark
        else:
            marks.pop(int(group), None)
    for group in marks:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    if marks:
        end_strays(set(marks.values()), (), Carriers())


@dataclass(frozen=True)
class Kin:
    """A process, and when it began: its number may come back as somebody else's."""

    pid: int
    began: bytes


@dataclass(frozen=True)
class Process:
    """What a look at a living process shows."""

    kin: Kin
    parent: int


class Carriers:
    """Knows who carries a mark.

    It remembers who does not: of the processes of a machine hardly one is new at a look. Who began
    unmarked stays so, but for the leaders of groups, whom nobody has to look for.
    """

    def __init__(self) -> None:
        self._unmarked: set[tuple[int, int]] = set()  # by number, and by inode: a number comes back
        self._empty: set[tuple[int, int]] = set()
        self.unsure = False
        """Whether the last look met some without an environment whom no look met before: a program
        that is just being started shows none for a moment. Or whether it could not see all: there
        was no descriptor to be had."""

    def of(self, marks: AbstractSet[str]) -> list[int]:
        """Look, and return the living processes that carry one of these."""
        found: list[int] = []
        try:
            self.unsure = self._look(marks, found)
        except OSError:
            self.unsure = True
        return found

    def _look(self, marks: AbstractSet[str], found: list[int]) -> bool:
        unmarked, empty, unseen = set(), set(), False
        for who in _entries():
            try:
                mark = _UNMARKED if who in self._unmarked else _mark_of(who[0])
            except OSError:
                unseen = True
                continue
            if mark is None:
                empty.add(who)
            elif mark == _UNMARKED:
                unmarked.add(who)
            elif mark in marks:
                found.append(who[0])
        unsure = unseen or bool(empty - self._empty)
        self._unmarked, self._empty = unmarked, empty
        return unsure


def end_strays(marks: AbstractSet[str], kin: Collection[Kin], carriers: Carriers) -> None:
    """Kill all that carry one of these marks, and ``kin`` with what they started.

    Returns when a look finds none any more. Without ``/proc`` nothing is found.
    """
    until = time.monotonic() + _STRAYS_LIMIT_S
    # Again: for what they started meanwhile, and because on a busy machine a killed one dies later.
    while True:
        found = [*_with_theirs(kin), *carriers.of(marks)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not (found or carriers.unsure) or time.monotonic() >= until:
            return
        time.sleep(_LOOK_AGAIN_S)


def processes() -> list[Process]:
    """Return all that live, as far as there are descriptors to see them with."""
    found = []
    with contextlib.suppress(OSError):
        for pid, _ in _entries():
            fields = _fields(pid)
            if fields and fields[0] not in b"ZX":
                found.append(Process(Kin(pid, fields[19]), int(fields[1])))
    return found


def descendants(leader: int, living: Iterable[Process]) -> list[Kin]:
    """Return who among the ``living`` was started by ``leader``, or by one who was."""
    children = defaultdict(list)
    for process in living:
        children[process.parent].append(process.kin)
    below: list[Kin] = children.pop(leader, [])
    for each in below:
        below += children.pop(each.pid, [])
    return below


def _with_theirs(kin: Collection[Kin]) -> Iterator[int]:
    if not kin:
        return
    living = processes()
    for each in {process.kin for process in living}.intersection(kin):
        yield each.pid
        yield from (below.pid for below in descendants(each.pid, living))


def _mark_of(pid: int) -> str | None:
    """Return its mark, or that it has none; None of one that has no environment, or none yet."""
    variables = _read(pid, "environ")
    if variables is None:
        return _UNMARKED
    if not variables:
        return None
    own = (each for each in variables.split(b"\0") if each.startswith(_PREFIX))
    return next(own, _PREFIX)[len(_PREFIX) :].decode("ascii", "replace")


def _fields(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        # The name before the last bracket may hold anything.
        return (_read(pid, "stat") or b"").rpartition(b")")[2].split(maxsplit=20)
    return []


def _entries() -> Iterator[tuple[int, int]]:
    """Yield the number of each process, and the inode of its folder. Raises OSError in need."""
    try:
        with os.scandir("/proc") as entries:
            yield from ((int(each.name), each.inode()) for each in entries if each.name.isdigit())
    except OSError as error:
        if error.errno in _NEED:
            raise


def _read(pid: int, what: str) -> bytes | None:
    """Return a file of a process; nothing of one that is gone, None of one that is not ours.

    Raises OSError when there is not what it takes to look.
    """
    try:
        with open(f"/proc/{pid}/{what}", "rb", buffering=0) as file:  # noqa: PTH123 - 200 a look
            return file.read()
    except PermissionError:
        return None
    except OSError as error:
        if error.errno in _NEED:
            raise
        return b""


if __name__ == "__main__":
    main()
