"""The processes of a program, any of which may end while one looks."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import psutil

Told = TypeVar("Told")


def told_by(
    processes: Iterable[psutil.Process], ask: Callable[[psutil.Process], Told]
) -> Iterator[tuple[psutil.Process, Told]]:
    """Yield those that still were there to answer, each with what it told."""
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            told = ask(each)
            yield each, told


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    leader = psutil.Process(pid)
    return [leader, *leader.children(recursive=True)]


def children_with(pid: int, word: str) -> list[psutil.Process]:
    """Return the children of a process that have a word in their commands."""
    commands = told_by(psutil.Process(pid).children(), psutil.Process.cmdline)
    return [each for each, command in commands if word in " ".join(command)]
