"""The global flags, and the types of values that flags take."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import click

from jobqueue.cli.connection import CONNECTION_FLAGS, Connection, ConnectionFlag
from jobqueue.domain.limits import parse_priority
from jobqueue.domain.state import JobStatus

T = TypeVar("T")

FORMATS = ("table", "json", "yaml")


@dataclass(slots=True)
class Globals(Connection):
    """What the global flags said; the last one said wins."""

    output: str = "table"
    timeout: float = 10.0


# click names a value in --help after the function that reads it.


def seconds(text: str) -> float:
    """Read a duration in seconds, with fractions."""
    try:
        value = float(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not a number of seconds, such as 90 or 2.5"
        ) from error
    if not math.isfinite(value) or value < 0:
        raise click.BadParameter(f"{text!r} is not a duration of 0 or more seconds")
    return value


def some_seconds(text: str) -> float:
    """Read a duration of more than no time."""
    value = seconds(text)
    if value == 0:
        raise click.BadParameter("must be more than 0 seconds")
    return value


some_seconds.__name__ = "seconds"


def time(text: str) -> datetime:
    """Read an instant: RFC 3339 with a time zone."""
    try:
        return parse_instant(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def priority(text: str) -> int:
    """Read 0 to 9, or critical, high, normal, low."""
    try:
        return parse_priority(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def status(text: str) -> frozenset[JobStatus]:
    """Read one or more of the six statuses, comma-separated, in any case."""
    words = [word.strip().upper().replace("-", "_") for word in text.split(",")]
    for word in words:
        if word not in JobStatus.__members__:
            raise click.BadParameter(f"{word!r} is not one of {', '.join(JobStatus)}")
    return frozenset(JobStatus(word) for word in words)


def label(text: str) -> tuple[str, str]:
    """Read ``KEY=VALUE``; the value may hold further equals signs."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return key, value


def weights(text: str) -> dict[int, int]:
    """Read ``9=100,5=10``: shares of the claims by priority."""
    shares: dict[int, int] = {}
    for part in text.split(","):
        key, _, share = part.partition("=")
        if not re.fullmatch(r"\s*[0-9]{1,9}\s*", share, re.ASCII):
            raise click.BadParameter(f"{part!r} is not PRIORITY=SHARE, such as 9=100")
        named = priority(key)
        if named in shares:
            raise click.BadParameter(f"priority {named} is named twice")
        shares[named] = int(share)
    return shares


NONE = "none"


def or_none(read: Callable[[str], T]) -> Callable[[str], T | str]:
    """Return a reader that also takes the word ``none``, which clears a setting."""

    def value(text: str) -> T | str:
        return NONE if text.strip().lower() == NONE else read(text)

    value.__name__ = f"{read.__name__}|none"
    return value


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}", re.ASCII)


def parse_instant(text: str) -> datetime:
    """Read an RFC 3339 time. Raises ValueError saying what to write instead."""
    if not _DATE.match(text):
        raise ValueError(
            f"{text!r} is not a time such as 2030-01-31T18:00:00Z (for a time from now: delay)"
        )
    try:
        instant = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time: {error}") from error
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; add Z for UTC or an offset such as +02:00")
    return instant


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """Return the global flags; on commands they are hidden, but work the same."""

    def option(flag: str, text: str, kind: Any = None, **more: Any) -> click.Option:
        return click.Option(
            [flag],
            type=kind,
            help=text,
            hidden=hidden,
            expose_value=False,
            callback=_remember,
            **more,
        )

    def connection(each: ConnectionFlag) -> click.Option:
        # The environment is read once, at the top: a command must not override a flag with it.
        variable = None if hidden else each.variable
        return option(each.flag, each.text, metavar=each.metavar, envvar=variable, show_envvar=True)

    return [
        *map(connection, CONNECTION_FLAGS),
        option(
            "--output",
            "How results are printed.  [default: table]",
            click.Choice(FORMATS, case_sensitive=False),
        ),
        option("--timeout", "Seconds one call may take.  [default: 10]", some_seconds),
    ]


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if value is not None and param.name is not None:
        setattr(ctx.ensure_object(Globals), param.name, value)
    return value


def globals_of(ctx: click.Context) -> Globals:
    """Return what the global flags said."""
    return ctx.ensure_object(Globals)
