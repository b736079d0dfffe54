"""The whole program: its nouns, and what becomes of errors (R-8.3)."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from jobqueue.cli.ctl.commands import Noun
from jobqueue.cli.ctl.completion import COMPLETE, PROGRAM, completion
from jobqueue.cli.ctl.doctor import doctor
from jobqueue.cli.ctl.events import events
from jobqueue.cli.ctl.exit_codes import ExitCode, exit_code
from jobqueue.cli.ctl.job import job
from jobqueue.cli.ctl.options import Globals, global_options
from jobqueue.cli.ctl.queue import queue
from jobqueue.cli.ctl.system import status, version
from jobqueue.cli.ctl.text import print_notice, stop_printing
from jobqueue.cli.ctl.top import top
from jobqueue.cli.ctl.worker import worker
from jobqueue.cli.version import print_version
from jobqueue.errors import FieldViolation, InvalidArgument, JobQueueError

_MESSAGE_LENGTH = 500
_UNWIND_S = 1.0
"""What the clean-up after an interrupt may take."""

_BY_SIGNAL = 128
"""Added to its number, the exit code of who was ended by a signal, as shells have it."""


class _Root(Noun):
    """The program itself: the one place that shows the global flags."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [option for option in self.params if not _is_global(option)]
        self.params.extend(global_options(hidden=False))


def _is_global(option: click.Parameter) -> bool:
    return option.name in Globals.__dataclass_fields__


@click.group(
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=[
        "jq-ctl job submit --queue default --payload hello --wait",
        "jq-ctl --server-addr queue.example:50051 status",
        "jq-ctl queue stats --output json",
    ],
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version of this program.",
)
def cli() -> None:
    """Operate a job queue: jobs, queues, workers and events.

    Exit codes: 0 success, 1 other failure, 2 usage or invalid argument, 3 not found, 4 wrong
    state or already there, 5 unavailable or deadline, 6 not allowed, 7 partly done, 8 the job
    waited for ended DEAD_LETTERED, 9 the wait timed out, 130 interrupted.
    """


for _command in (job, queue, worker, events, status, top, doctor, version, completion):
    cli.add_command(_command)


def main() -> None:
    """Run the program and exit with its code."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A table shows what the terminal cannot spell as escapes instead of failing.
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGINT, _interrupt)  # though ignored: so a shell starts what it leaves
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _interrupt)
    code = run(sys.argv[1:])
    if code > _BY_SIGNAL:
        _end_interrupted(code)
    sys.exit(code)


def _open_missing_streams() -> None:
    """Let streams that the caller has closed (``>&-``) give nothing and take everything."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - for good
            setattr(sys, name, nothing)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, and end the program even if what that unwinds hangs.

    Whatever signal it was: a terminal is to be given back as it was found.

    For gRPC, a call that is broken off while it begins never ends, and closing its channel waits
    for it; what it had half made complains in its finalizer, which tells a user nothing.
    """
    sys.unraisablehook = _unheard
    signal.signal(signal.SIGALRM, lambda *_: _end_interrupted(_BY_SIGNAL + number))
    signal.setitimer(signal.ITIMER_REAL, _UNWIND_S)
    raise _Interrupted(number)


class _Interrupted(KeyboardInterrupt):
    """A signal came; ``code`` is what a shell calls an end by it."""

    def __init__(self, number: int) -> None:
        self.code = _BY_SIGNAL + number
        super().__init__()


def _unheard(_found: "sys.UnraisableHookArgs") -> None:
    """Tell nobody."""


def _end_interrupted(code: int) -> NoReturn:
    """End without the interpreter's own clean-up, which may hang in the same way."""
    with suppress(OSError, ValueError, RuntimeError):  # a closed pipe; a write that was broken off
        sys.stdout.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the program; return the exit code. Errors are told on stderr, in a line."""
    try:
        _invoke(list(arguments))
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (KeyboardInterrupt, click.Abort) as interrupted:
        return interrupted.code if isinstance(interrupted, _Interrupted) else ExitCode.INTERRUPTED
    except click.ClickException as error:
        _say(f"{_shortened(error.format_message().rstrip('.'))}{_hint(error)}")
        return error.exit_code
    except JobQueueError as error:
        _say(_message(error))
        return exit_code(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback, ever
        return _unexpected(error)
    return ExitCode.SUCCESS


def _invoke(arguments: list[str]) -> None:
    """Parse and run. Not by click's own main, which ends a closed pipe with 1."""
    if COMPLETE in os.environ:
        cli.main(arguments, prog_name=PROGRAM, complete_var=COMPLETE)
    with cli.make_context(PROGRAM, arguments) as ctx:
        cli.invoke(ctx)


def _unexpected(error: Exception) -> ExitCode:
    if isinstance(error, BrokenPipeError):
        stop_printing()
        return ExitCode.SUCCESS
    if isinstance(error, OSError):
        stop_printing()
        _say(error.strerror or str(error))
    else:
        _say(f"unexpected {type(error).__name__}: {error}")
    return ExitCode.FAILURE


def _message(error: JobQueueError) -> str:
    """Return one line, and one more for each bad field where there are several."""
    if isinstance(error, InvalidArgument) and len(error.violations) > 1:
        fields = "".join(f"\n  {_field(fault)}" for fault in error.violations)
        return f"{_count(error.violations)} bad fields{fields}"
    return _shortened(error.message)


def _count(faults: Sequence[FieldViolation]) -> str:
    """Say how many fields are named; what has no name stands for more of them."""
    named = sum(1 for fault in faults if fault.field)
    return str(named) if named == len(faults) else f"more than {named}"


def _field(fault: FieldViolation) -> str:
    return _shortened(f"{fault.field}: {fault.description}" if fault.field else fault.description)


def _hint(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx:
        return f" (see {error.ctx.command_path} --help)"
    return ""


def _shortened(message: str) -> str:
    """Return a message of a length that can be read; what a user typed may be as long as a book."""
    return message if len(message) <= _MESSAGE_LENGTH else f"{message[: _MESSAGE_LENGTH - 1]}…"


def _say(message: str) -> None:
    print_notice(f"error: {message}")
