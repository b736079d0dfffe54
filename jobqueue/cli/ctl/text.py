"""Tables for people: rich on a terminal, aligned with tabs when piped.

What was stored by others is shown, never obeyed: control characters, which could move the cursor
or retitle the window, are written as escapes.
"""

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:  # rich takes longer to load than all the rest of a --help
    from rich.table import Table

Row = Sequence[str]

_LONGEST = 2_000
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """Return text on one line without anything a terminal would act on."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
    return "".join(_shown(character) for character in cut)


def _shown(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    # Controls, direction overrides, lone surrogates, line separators.
    if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return f"\\u{ord(character):04x}"
    return character


def cell(value: object) -> str:
    """Return a value as a table shows it; ``-`` when there is none."""
    return visible(_plain(value)) or "-"


def _plain(value: object) -> str:
    readers: tuple[tuple[type, Callable[[Any], str]], ...] = (
        (bool, lambda flag: "yes" if flag else "no"),
        (float, lambda number: f"{number:.10g}"),
        (datetime, moment),
        (bytes, _bytes_text),
        (dict, lambda pairs: ",".join(f"{key}={entry}" for key, entry in pairs.items())),
        (tuple, lambda entries: ",".join(str(entry) for entry in entries)),
        (type(None), lambda _: ""),
    )
    for kind, read in readers:
        if isinstance(value, kind):
            return read(value)
    return str(value)


def _bytes_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"({len(raw)} bytes that are not text; --output json shows them)"


def moment(at: datetime) -> str:
    """Return an instant in UTC, to the millisecond."""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def rough(seconds: float | None) -> str:
    """Return a measured duration as people read it: ``85 ms``, ``2.4 s``, ``3 h 05 min``."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{minutes} min" if not hours else f"{hours} h {minutes % 60:02d} min"


def print_table(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Print a table; with a heading where there are ``columns``."""
    if sys.stdout.isatty():
        _print_rich(columns, list(rows))
    else:
        _print_aligned([*([columns] if columns else ()), *rows])


def print_record(fields: Iterable[tuple[str, str]]) -> None:
    """Print one thing, a field a line."""
    if sys.stdout.isatty():
        _print_rich((), list(fields))
    else:
        _print_aligned([(f"{name}:", value) for name, value in fields])


def print_line(text: str) -> None:
    """Print one line at once, also into a pipe."""
    click.echo(text)
    sys.stdout.flush()


def print_notice(text: str) -> None:
    """Say something on stderr; what cannot be said there changes nothing."""
    with suppress(OSError):
        click.echo(text, err=True)


@contextmanager
def incidentally() -> Iterator[None]:
    """Print in this what comes beside work that is to be done all the same.

    Who closes the pipe has seen enough. Raises other OSErrors once nothing is printed any more.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        stop_printing()
    except OSError:
        stop_printing()
        raise


def stop_printing() -> None:
    """Point stdout at nothing: nobody reads it any more, and no later flush shall fail for it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_aligned(rows: Sequence[Row]) -> None:
    """Pad each column to one width and end it with a tab: for eyes, awk and cut alike."""
    widths = [max(len(entry) for entry in column) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = [entry.ljust(width) for entry, width in zip(row, widths, strict=True)]
        click.echo("\t".join([*padded[:-1], row[-1]]))


def _print_rich(columns: Sequence[str], rows: Sequence[Row]) -> None:
    from rich.console import Console  # noqa: PLC0415 - start-up time of --help

    Console(soft_wrap=False, highlight=False).print(rich_table(columns, rows))


def rich_table(
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    first_width: int | None = None,
    wrap: bool = True,
) -> "Table":
    """Return a table for a terminal; the first column no wider than ``first_width``.

    Without ``wrap`` each row takes one line, and what is too long is cut.
    """
    from rich.table import Table  # noqa: PLC0415 - start-up time of --help
    from rich.text import Text  # noqa: PLC0415 - the same

    table = Table(box=None, show_header=bool(columns), pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(
            column,
            overflow="fold" if wrap else "ellipsis",
            no_wrap=not wrap,
            max_width=None if index else first_width,
        )
    for row in rows:
        # Text, not markup: a payload may hold square brackets.
        table.add_row(*(Text(entry, style=_STYLES.get(entry.rstrip(), "")) for entry in row))
    return table


_STYLES = {
    "DONE": "green",
    "RUNNING": "cyan",
    "FAILED": "yellow",
    "DEAD_LETTERED": "red",
    "ACTIVE": "green",
    "DRAINING": "yellow",
    "OFFLINE": "red",
    "ok": "green",
    "degraded": "yellow",
    "down": "red",
    "warn": "yellow",
    "fail": "red",
}
