"""A handler process: imports the handlers once, then runs one job after the other.

Started by the worker as ``python -m jobqueue.worker.child FD PARENT``. Talks over the socket FD
only; what handlers print goes to stderr. SIGTERM raises SystemExit in a running handler, so that
its ``finally`` blocks run; the worker sends SIGKILL to whatever ignores that.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import NoReturn
from uuid import UUID

from jobqueue.domain.limits import Limits, safe_text
from jobqueue.domain.outcome import Outcome
from jobqueue.runtime.parent import end_with_parent
from jobqueue.worker.context import Context
from jobqueue.worker.declare import declared
from jobqueue.worker.endings import describe, outcome_of, outcome_of_error
from jobqueue.worker.frames import Channel, Frame, outcome_frame, receive_blocking

_stopping = threading.Event()


def main(fd: int, parent: int) -> None:
    """Serve until the worker closes the socket."""
    end_with_parent(parent, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(fd, False)
    os.dup2(2, 1)
    with socket.socket(fileno=fd) as channel, channel.makefile("rwb") as file:
        setup = receive_blocking(file)
        if setup is not None:
            _serve(file, setup)


def _on_term(_number: int, _frame: object) -> NoReturn:
    _stopping.set()
    raise SystemExit(128 + signal.SIGTERM)


def _serve(file: Channel, setup: Frame) -> None:
    limits = Limits(**setup.head["limits"])
    error = _import(setup.head["path"], setup.head["modules"], limits)
    _send(file, Frame({"ready": not error, "error": error}))
    last = bool(error)
    while not last and (order := receive_blocking(file)):
        outcome, last = _run(order, limits)
        if _stopping.is_set():
            return  # the worker decided what became of this attempt
        _send(file, outcome_frame(outcome, last=last))


def _import(path: list[str], modules: list[str], limits: Limits) -> str:
    sys.path[:] = path
    try:
        for name in modules:
            import_module(name)
    except BaseException as error:  # noqa: BLE001 - foreign code; the worker must hear why
        return safe_text(describe(error), limits.error_bytes)
    return ""


def _run(order: Frame, limits: Limits) -> tuple[Outcome, bool]:
    """Run one handler; the flag says that this process should not run another."""
    signal.signal(signal.SIGTERM, _on_term)  # the last handler may have taken it
    try:
        return outcome_of(_handler(order)(_context(order)), limits), False
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
        return outcome_of_error(error, limits), not isinstance(error, Exception)
    finally:
        _flush()


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


def _send(file: Channel, frame: Frame) -> None:
    file.write(frame.pack())
    file.flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - a handler may have closed or replaced it
            continue


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
