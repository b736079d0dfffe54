"""Runs a program for a job: bytes in, bytes out, bounded memory, nothing left behind."""

import asyncio
import contextlib
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE, Popen

from jobqueue.domain.limits import Limits, safe_text
from jobqueue.domain.outcome import Failed, Outcome
from jobqueue.runtime.grpc_environment import environment_given
from jobqueue.worker.around import trace_variables
from jobqueue.worker.attempt import Attempt
from jobqueue.worker.endings import completed
from jobqueue.worker.gate import gated
from jobqueue.worker.groups import ProcessGroup, exit_words
from jobqueue.worker.guard import Guard
from jobqueue.worker.pipes import Inflow, Outflow

_DRAIN_LIMIT_S = 2.0
"""A process that left the group may hold our pipes open; its output no longer counts."""

_KEPT = frozenset({"JQ_SERVER_ADDR"})
_TRACE = frozenset({"TRACEPARENT", "TRACESTATE"})


async def run_program(
    argv: Sequence[str], stdin: bytes | None, attempt: Attempt, limits: Limits, guard: Guard
) -> Outcome:
    """Run ``argv`` to its end; stdout is the result, the tail of stderr the error.

    Both are always drained; beyond the limits they cost no memory. When the program ends, whatever
    it left in its process group is killed. Cancellation ends the group and returns when it is dead.
    """
    env = job_environment(attempt)
    try:
        started, fed = gated(argv, stdin, env)
        streams = (DEVNULL if fed is None else PIPE, PIPE, PIPE)
        group = ProcessGroup.spawn(started, guard, streams=streams, env=env)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return Failed(safe_text(f"cannot start {argv[0]!r}: {why}", limits.error_bytes))
    attempt.begin()
    pipes = _Pipes(group.process, limits)
    try:
        pipes.open(fed)
        code = await group.exited()
        attempt.finish()
    except asyncio.CancelledError:
        await group.end(attempt.patience())
        raise
    except BaseException:
        await group.end()  # the loop cannot watch it: it must not go on
        raise
    else:
        await group.end()
        await pipes.drained()
    finally:
        pipes.close()
    return _outcome(code, pipes, limits)


def job_environment(attempt: Attempt) -> dict[str, str]:
    """Return the worker's environment without its own settings, plus what names the job.

    The worker's settings hold secrets that a job, written by anybody who may submit, must not see.
    """
    job = attempt.job
    env = {k: v for k, v in environment_given().items() if _is_for_jobs(k)}
    return env | {
        "JQ_JOB_ID": str(job.job_id),
        "JQ_JOB_ATTEMPT": str(job.attempt),
        "JQ_JOB_TYPE": job.type or "",
        "JQ_JOB_QUEUE": job.queue,
        **trace_variables(attempt.carrier),
    }


def _is_for_jobs(variable: str) -> bool:
    """The worker's own trace context, if it was started with one, is not the job's."""
    return (not variable.startswith("JQ_") or variable in _KEPT) and variable not in _TRACE


class _Head:
    """Keeps the first ``size`` bytes, and one more that shows that there were more."""

    def __init__(self, size: int) -> None:
        self.kept = bytearray()
        self._size = size + 1

    def take(self, data: bytes) -> None:
        self.kept += data[: self._size - len(self.kept)]


class _Tail(_Head):
    """Keeps the last ``size`` bytes, and one more that shows that there were more."""

    def take(self, data: bytes) -> None:
        self.kept += data
        if len(self.kept) > 2 * self._size:
            self.trim()

    def trim(self) -> None:
        del self.kept[: -self._size]


class _Pipes:
    """The three pipes of one program."""

    def __init__(self, process: "Popen[bytes]", limits: Limits) -> None:
        self.out = _Head(limits.result_bytes)
        self.err = _Tail(limits.error_bytes)
        self._process = process
        self._inflows: list[Inflow] = []
        self._outflows: list[Outflow] = []

    def open(self, stdin: bytes | None) -> None:
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        self._inflows.append(Inflow(process.stdout, self.out.take))
        self._inflows.append(Inflow(process.stderr, self.err.take))
        if stdin is not None:
            assert process.stdin is not None
            self._outflows.append(Outflow(process.stdin, stdin))

    async def drained(self) -> None:
        """Wait for the end of both outputs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_LIMIT_S):
                await asyncio.gather(*(flow.ended for flow in self._inflows))

    def close(self) -> None:
        for inflow in self._inflows:
            inflow.close()
        for outflow in self._outflows:
            outflow.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _outcome(code: int, pipes: _Pipes, limits: Limits) -> Outcome:
    if code == 0:
        return completed(bytes(pipes.out.kept), limits)
    pipes.err.trim()
    return Failed(_error_text(exit_words(code), bytes(pipes.err.kept), limits.error_bytes))


def _error_text(how: str, stderr: bytes, max_bytes: int) -> str:
    """Return the exit code and as much of the end of ``stderr`` as fits."""
    head, mark = f"{how}: ", "[truncated] … "
    text = safe_text(stderr.decode(errors="replace").rstrip(), 4 * len(stderr) + 64)
    raw = text.encode()
    room = max_bytes - len(head.encode())
    if len(raw) > room:
        tail = raw[-max(room - len(mark.encode()), 0) :].decode(errors="ignore")
        text = f"{mark}{tail}"
    return safe_text(f"{head}{text}" if text else how, max_bytes)
