"""The four ways to run a handler, behind one call.

``run`` takes a handler to its end and returns the outcome. It is stopped by cancellation: then it
ends what it started and raises CancelledError only when that is dead. A handler that nothing can
end, an async function that swallows cancellation or a thread, keeps it from returning; the
executor notices.
"""

import asyncio
import contextvars
import json
import os
import threading
from collections.abc import Awaitable, Callable

from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Failed, Outcome, Refused
from jobqueue.runtime.guests import in_one_process
from jobqueue.worker.attempt import Attempt
from jobqueue.worker.children import CHILD, ChildFailed, ChildSetup, Pool
from jobqueue.worker.declare import Function
from jobqueue.worker.endings import outcome_of, outcome_of_error
from jobqueue.worker.frames import Frame, frame_outcome
from jobqueue.worker.guard import Guard
from jobqueue.worker.programs import run_program
from jobqueue.worker.registry import Command, Handler, Registry, Shell


class Runners:
    """Runs any handler of a registry. ``open`` before use, ``close`` at the end."""

    def __init__(
        self, registry: Registry, limits: Limits, concurrency: int, child: str = CHILD
    ) -> None:
        """``child`` is the module that a handler process runs."""
        self._limits = limits
        self._guard = Guard()
        ready = min(concurrency, os.cpu_count() or 1) if registry.needs_children else 0
        self._pool = Pool(ChildSetup(registry.modules, limits, child), self._guard, ready)

    async def open(self) -> None:
        """Start handler processes ahead, if any handler needs them. Raises ChildFailed."""
        await self._pool.open()

    async def close(self) -> None:
        """End everything that was started."""
        await self._pool.close()
        self._guard.close()

    def run(self, handler: Handler, attempt: Attempt) -> Awaitable[Outcome]:
        """Run one attempt to its end."""
        match handler:
            case Function():
                return self._function(handler, attempt)
            case Command(argv=argv):
                return self._program(argv, attempt.job.payload, attempt)
            case Shell():
                return self._shell(attempt)

    def _function(self, handler: Function, attempt: Attempt) -> Awaitable[Outcome]:
        if handler.on_loop:
            return self._on_loop(handler, attempt)
        if handler.threads:
            return self._in_thread(handler, attempt)
        return self._in_child(handler, attempt)

    async def _program(
        self, argv: tuple[str, ...], stdin: bytes | None, attempt: Attempt
    ) -> Outcome:
        return await run_program(argv, stdin, attempt, self._limits, self._guard)

    async def _shell(self, attempt: Attempt) -> Outcome:
        try:
            command = shell_command(attempt.job.payload)
        except ValueError as error:
            return Refused(str(error))
        return await self._program(("/bin/sh", "-c", command), None, attempt)

    async def _on_loop(self, handler: Function, attempt: Attempt) -> Outcome:
        attempt.begin()
        try:
            return outcome_of(await in_one_process(handler.call(attempt.context)), self._limits)
        except asyncio.CancelledError as error:
            if attempt.reason is not None:
                raise
            # Nobody asked for it: something inside the handler was cancelled. That is a failure.
            return outcome_of_error(error, self._limits)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler must not end the worker
            return outcome_of_error(error, self._limits)

    async def _in_thread(self, handler: Function, attempt: Attempt) -> Outcome:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Outcome] = loop.create_future()
        attempt.begin()
        context = attempt.context

        def call() -> None:
            outcome = _called(lambda: handler.call(context), self._limits)
            try:
                loop.call_soon_threadsafe(ended.set_result, outcome)
            except RuntimeError:
                return  # the loop is closed: the worker gave up on this thread

        copied = contextvars.copy_context()
        # A daemon: a thread that never ends must not keep the process from ending.
        threading.Thread(target=copied.run, args=(call,), daemon=True).start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            await asyncio.shield(ended)
            raise

    async def _in_child(self, handler: Function, attempt: Attempt) -> Outcome:
        try:
            child = await self._pool.take()
        except ChildFailed as error:
            return outcome_of_error(error, self._limits)
        attempt.begin()
        try:
            answer = await child.ask(_order(handler, attempt))
            attempt.finish()
            outcome, last = frame_outcome(answer), answer.head["last"]
        except asyncio.CancelledError:
            await self._pool.discard(child, attempt.patience())
            raise
        except ChildFailed as error:
            attempt.finish()
            await self._pool.discard(child, None)
            return Failed(str(error))
        except BaseException:
            await self._pool.discard(child, None)  # what it said is no outcome
            raise
        if last:
            await self._pool.discard(child, None)
        else:
            self._pool.give(child)
        return outcome


def shell_command(payload: bytes) -> str:
    """Return the command line in ``{"command": "…"}``. Raises ValueError saying what is wrong."""
    try:
        order = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ValueError('a shell job needs the payload {"command": "…"}, as JSON') from error
    command = order.get("command") if isinstance(order, dict) else None
    if not isinstance(command, str) or not command.strip():
        raise ValueError('a shell job needs a text under "command" in its payload')
    try:
        return _argument(command)
    except UnicodeEncodeError as error:
        raise ValueError("the command is not valid Unicode (lone surrogate)") from error


def _argument(command: str) -> str:
    if "\x00" in command:
        raise ValueError("the command must not contain NUL")
    command.encode()
    return command


def _called(call: Callable[[], object], limits: Limits) -> Outcome:
    try:
        return outcome_of(call(), limits)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
        return outcome_of_error(error, limits)


def _order(handler: Function, attempt: Attempt) -> Frame:
    job = attempt.job
    head = {
        "handler": handler.type,
        "job_id": str(job.job_id),
        "queue": job.queue,
        "type": job.type,
        "attempt": job.attempt,
        "timeout_s": attempt.timeout_s,
        "labels": dict(job.labels),
        "carrier": dict(attempt.carrier),
    }
    return Frame(head, job.payload)
