"""Shows how far it is: a bar on a terminal, a line now and then elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_STEPS = 10


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many of `total` are done."""
    if not sys.stdout.isatty():
        yield _Lines(what, total).show
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


class _Lines:
    """Prints a line for each tenth."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._shown = 0

    def show(self, done: int) -> None:
        step = done * _STEPS // max(self._total, 1)
        if step > self._shown:
            self._shown = step
            print(f"{self._what}: {done} of {self._total}", flush=True)
