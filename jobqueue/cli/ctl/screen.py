"""The terminal as a live view: one frame in place of the last, and a key that ends it.

Nothing wraps: columns that do not fit are left out from the right, rows from the bottom.
"""

import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from jobqueue.cli.ctl.frames import Frame, Table
from jobqueue.cli.ctl.text import rich_table
from jobqueue.errors import JobQueueError

T = TypeVar("T")

_LOOK_AGAIN_S = 0.1
_GAP, _READABLE = 2, 10
_FIRST_SHARE = 3
"""The first column, a name of up to 128 characters, gets a third of the width."""


class Left(Exception):
    """The one who watched has seen enough."""


class Screen:
    """Shows frames on the whole terminal, until its block ends or somebody presses ``q``.

    The last frame stays behind when all is over.
    """

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._keys = Keys()
        self._frame: Frame | None = None

    def __enter__(self) -> Self:
        self._keys.open()
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Give the terminal back. Whoever left wanted that: no error for the caller."""
        self._live.stop()
        self._keys.close()
        left = kind is Left
        if self._frame is not None and (kind is None or left):
            self._console.print(layout(self._frame, None, self._console.width, None))
        return left

    def show(self, frame: Frame) -> None:
        """Put a frame in place of the last."""
        self._frame = frame
        self._draw(None)

    def fail(self, error: JobQueueError) -> None:
        """Say above the last frame that this is what was seen last."""
        self._draw(f"{error.message}; trying again")

    def look(self, ask: Callable[[], T]) -> T:
        """Return ``ask()``, which may take long: keys are heard meanwhile."""
        asked: Future[T] = Future()
        threading.Thread(target=_answer, args=(asked, ask), daemon=True).start()
        while not asked.done():
            self._keys.wait(_LOOK_AGAIN_S)
        return asked.result()

    def rest(self, seconds: float) -> None:
        """Wait for the next frame's time."""
        self._keys.wait(seconds)

    def _draw(self, trouble: str | None) -> None:
        width, height = self._console.size
        drawn = layout(self._frame, trouble, width, height)
        self._live.update(drawn, refresh=True)


def _answer(asked: "Future[T]", ask: Callable[[], T]) -> None:
    try:
        asked.set_result(ask())
    except Exception as error:  # noqa: BLE001 - raised again by the one who waits
        asked.set_exception(error)


class Keys:
    """Hears ``q`` without Enter, where stdin is a terminal. Ctrl-C stays a signal."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def open(self) -> None:
        """Have the terminal pass on each key at once, and not show it."""
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)

    def close(self) -> None:
        """Leave the terminal as it was."""
        before, self._before = self._before, None
        if before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    def wait(self, seconds: float) -> None:
        """Wait; raise Left on ``q``."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._before is None:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0]:
                self._read()

    def _read(self) -> None:
        keys = os.read(sys.stdin.fileno(), 64)
        if not keys or b"q" in keys.lower():  # nothing: the terminal is gone
            raise Left


def layout(
    frame: Frame | None, trouble: str | None, width: int, height: int | None
) -> RenderableType:
    """Return a frame that fits into ``width`` columns and ``height`` lines (None: any)."""
    lines = [] if frame is None else list(frame.heading())
    head = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
    if trouble is not None:
        head.append(Text(trouble, style="red", no_wrap=True, overflow="ellipsis"))
    if frame is None:
        return Group(*head)
    components, queues, workers = frame.components(), frame.queues(), frame.workers()
    blanks, headings, notes = 3, 3, 2
    fixed = len(head) + blanks + headings + notes + len(components.rows)
    rooms = _rooms(height and height - fixed, len(queues.rows), len(workers.rows))
    return Group(
        *head,
        *_part(components, len(components.rows), width),
        *_part(queues, rooms[0], width),
        *_part(workers, rooms[1], width),
    )


def _rooms(lines: int | None, queues: int, workers: int) -> tuple[int, int]:
    """Share lines between queues and workers: a third is the workers' if they need it."""
    if lines is None:
        return queues, workers
    room = max(lines, 0)
    for_workers = min(workers, max(room // 3, room - queues))
    return min(queues, room - for_workers), for_workers


def _part(table: Table, room: int, width: int) -> Iterator[RenderableType]:
    shown = fitting(table, width)
    columns = table.columns[:shown]
    rows: Sequence[Sequence[str]] = [row[:shown] for row in table.rows[:room]]
    yield Text("")
    yield rich_table(columns, rows, first_width=_first_width(width), wrap=False)
    if room < len(table.rows):
        yield Text(f"and {len(table.rows) - room} more", style="dim")


def fitting(table: Table, width: int) -> int:
    """Return how many columns fit; at least the first, which is cut to its share.

    A last column of text fits when enough of it can be read.
    """
    entries = [table.columns, *table.rows]
    widths = [max(cell_len(row[index]) for row in entries) for index in range(len(table.columns))]
    left = width - min(widths[0], _first_width(width))
    if table.ends_in_text:
        widths[-1] = min(widths[-1], _READABLE)
    for index, wanted in enumerate(widths[1:], start=1):
        left -= wanted + _GAP
        if left < 0:
            return index
    return len(widths)


def _first_width(width: int) -> int:
    return max(width // _FIRST_SHARE, 1)
