"""A handler process: imports the handlers once, then runs one job after the other.

Started by the worker as ``python -m jobqueue.worker.child FD PARENT``. Talks over the socket FD
only; what handlers print goes to stderr, what they log to the worker's stdout. SIGTERM raises
SystemExit in a running handler, so that its ``finally`` blocks run; the worker sends SIGKILL to
whatever ignores that.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import NoReturn, TypeAlias
from uuid import UUID

from jobqueue.domain.limits import Limits, safe_text
from jobqueue.domain.outcome import Outcome
from jobqueue.runtime.copies import close_in_copies
from jobqueue.runtime.log import LogContext, name_process
from jobqueue.runtime.log_lines import LogSetup, configure_logging
from jobqueue.runtime.parent import end_with_parent
from jobqueue.runtime.strays import catch_strays
from jobqueue.runtime.structlogs import adopt_structlog
from jobqueue.worker.around import trace_names, trace_variables
from jobqueue.worker.context import Context
from jobqueue.worker.declare import declared
from jobqueue.worker.endings import describe, outcome_of, outcome_of_error
from jobqueue.worker.frames import Channel, Frame, outcome_frame, receive_blocking
from jobqueue.worker.leftovers import Leftovers, adopt_orphans

_stopping = threading.Event()


Scope: TypeAlias = Callable[[Mapping[str, str]], AbstractContextManager[object]]
"""What a handler runs in, made from the trace context of its attempt."""


def main(fd: int, parent: int, scope: Scope = nullcontext) -> None:
    """Serve until the worker closes the socket."""
    end_with_parent(parent, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    adopt_orphans()
    os.set_inheritable(fd, False)
    log = os.dup(1)
    os.dup2(2, 1)
    with (
        suppress(BrokenPipeError, ConnectionResetError),  # the worker is gone, and tells more
        socket.socket(fileno=fd) as channel,
        channel.makefile("rwb") as file,
    ):
        close_in_copies(channel)  # none must answer, nor keep the worker from seeing that we died
        setup = receive_blocking(file)
        if setup is not None:
            _start_logging(setup, log)
            _serve(file, setup, scope)


def _start_logging(setup: Frame, log: int) -> None:
    """Write lines as the worker does, unless it leaves that to somebody else."""
    name_process(**setup.head["process"])
    if setup.head["log"] is not None:
        configure_logging(LogSetup(**setup.head["log"]), log)
        catch_strays()


def _on_term(_number: int, _frame: object) -> NoReturn:
    _stopping.set()
    raise SystemExit(128 + signal.SIGTERM)


def _serve(file: Channel, setup: Frame, scope: Scope) -> None:
    limits = Limits(**setup.head["limits"])
    error = _import(setup.head["path"], setup.head["modules"], limits)
    _answer(file, setup, Frame({"ready": not error, "error": error}))
    last, process, leftovers = bool(error), os.getpid(), Leftovers()
    while not last and (order := receive_blocking(file)):
        outcome, last = _run(order, limits, scope)
        if os.getpid() != process:
            os._exit(0)  # the handler forked, and this is the copy
        if _stopping.is_set():
            return  # the worker decided what became of this attempt
        last = leftovers.clear() or last
        _answer(file, order, outcome_frame(outcome, last=last))
    if last:
        receive_blocking(file)  # while we live, what descends from us can be told by that


def _import(path: list[str], modules: list[str], limits: Limits) -> str:
    sys.path[:] = path
    try:
        for name in modules:
            import_module(name)
        adopt_structlog()
    except BaseException as error:  # noqa: BLE001 - foreign code; the worker must hear why
        return safe_text(describe(error), limits.error_bytes)
    return ""


def _run(order: Frame, limits: Limits, scope: Scope) -> tuple[Outcome, bool]:
    """Run one handler; the flag says that this process should not run another."""
    signal.signal(signal.SIGTERM, _on_term)  # the last handler may have taken it,
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])  # or blocked it
    try:
        with _surrounded(order, scope):
            return outcome_of(_handler(order)(_context(order)), limits), False
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
        return outcome_of_error(error, limits), not _is_plain(error)
    finally:
        _flush()


def _is_plain(error: BaseException) -> bool:
    """Out of memory, or told to exit, a process is not what it was."""
    return isinstance(error, Exception) and not isinstance(error, MemoryError)


@contextmanager
def _surrounded(order: Frame, scope: Scope) -> Iterator[None]:
    """Give the handler its trace context, by scope and by environment, and its lines the names."""
    head = order.head
    variables = trace_variables(head["carrier"])
    names = {"job_id": head["job_id"], "queue": head["queue"], **trace_names(head["carrier"])}
    os.environ.update(variables)
    try:
        with LogContext(**names), scope(head["carrier"]):
            yield
    finally:
        for name in variables:
            os.environ.pop(name, None)


def _handler(order: Frame) -> Callable[[Context], object]:
    return declared()[order.head["handler"]].call


def _context(order: Frame) -> Context:
    head = order.head
    timeout_s = head["timeout_s"]
    return Context(
        job_id=UUID(head["job_id"]),
        queue=head["queue"],
        type=head["type"],
        payload=order.body,
        attempt=head["attempt"],
        deadline=None if timeout_s is None else time.monotonic() + timeout_s,
        labels=head["labels"],
        _stopping=_stopping.is_set,
    )


def _answer(file: Channel, asked: Frame, answer: Frame) -> None:
    file.write(answer.answering(asked).pack())
    file.flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - a handler may have closed or replaced it
            continue


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
