"""What the server and the worker program share: flags, exit codes, start-up, last words."""

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NoReturn

import click

from jobqueue.config.model import Settings
from jobqueue.errors import JobQueueError, SettingsError

FAILED, BAD_SETTINGS = 1, 2
_LAST_STREAM = 2
LEVELS = click.Choice(("trace", "debug", "info", "warn", "error"))
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def begin() -> None:
    """Do what comes first in a program that stays."""
    _open_missing_streams()
    _end_quietly_while_starting()


def _open_missing_streams() -> None:
    """A socket that gets the number of a stream that is closed would be written to by children."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= _LAST_STREAM:
        os.set_inheritable(fd, True)
    os.close(fd)


def _end_quietly_while_starting() -> None:
    """Until the loop listens, nothing is held: a signal may end the process at once.

    Not by SystemExit: uvloop lets one that meets it while it starts to run leave it half started,
    and such a loop can neither run nor be closed.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def start_logging(program: str, settings: Settings, warnings: Iterable[str]) -> None:
    """Start to log, and say what an operator should know."""
    from jobqueue.runtime.log import get_logger  # noqa: PLC0415 - not for --help
    from jobqueue.runtime.log_lines import LogSetup, configure_logging  # noqa: PLC0415 - the same
    from jobqueue.runtime.strays import catch_strays  # noqa: PLC0415 - the same

    logging = settings.logging
    form: Literal["json", "text"] = "text" if logging.format == "text" else "json"
    configure_logging(LogSetup(program, logging.level, form))
    catch_strays()
    # What handlers and libraries print must not tear the stream of lines.
    sys.stdout = sys.stderr
    for line in warnings:
        get_logger(f"jobqueue.cli.{program.removeprefix('jq-')}").warning(line)


def say_failed(program: str, error: JobQueueError) -> None:
    """Print one line: what failed, and what the driver said of it."""
    said = str(error.__cause__ or "")
    # What takes several lines is a dump for developers, such as a failed gRPC call.
    cause = f": {said}" if said and "\n" not in said and said not in str(error) else ""
    click.echo(f"{program}: {error}{cause}", err=True)


def refuse(program: str, error: SettingsError) -> NoReturn:
    """Print every bad setting and end the program."""
    for fault in error.faults:
        click.echo(f"{program}: {fault.key}: {fault.message}", err=True)
    sys.exit(BAD_SETTINGS)
