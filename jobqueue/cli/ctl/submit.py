"""``job submit``: one job from flags, or many from a file of JSON lines."""

import re
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO
from uuid import UUID

import click

from jobqueue.cli.ctl.exit_codes import ExitCode
from jobqueue.cli.ctl.output import print_document, wants_table
from jobqueue.cli.ctl.session import open_client
from jobqueue.cli.ctl.specs import read_lines, read_payload
from jobqueue.cli.ctl.text import incidentally, print_line, print_notice, visible
from jobqueue.domain.job import Job, JobSpec
from jobqueue.domain.state import JobStatus
from jobqueue.errors import DeadlineExceeded, InvalidArgument, JobQueueError, Unavailable


def submit_one(ctx: click.Context, fields: dict[str, Any], payload: str) -> list[UUID]:
    """Submit the job that the flags describe; print and return its id."""
    spec = JobSpec(payload=read_payload(payload), **fields)
    answer = open_client(ctx).submit(spec)
    with incidentally():
        if wants_table(ctx):
            print_line(str(answer.job_id))
        else:
            document = {"job_id": str(answer.job_id), "existing": answer.existing}
            print_document(ctx, document)
    return [answer.job_id]


def submit_file(ctx: click.Context, defaults: dict[str, Any], path: str) -> list[UUID]:
    """Submit every line; print the ids in order and return them.

    A file is read through before anything is sent, so that a bad line stores nothing. What comes
    through a pipe is sent as it is read.
    """
    with _opened(path) as stream:
        if stream.seekable():
            begin = stream.tell()  # others may have read what comes before
            deque(read_lines(stream, defaults), maxlen=0)
            stream.seek(begin)
        stored: list[UUID] = []
        try:
            _send(ctx, read_lines(stream, defaults), stored)
        except BaseException:  # also an interrupt
            with suppress(PartlyDone):
                _print_stored(ctx, stored)
            raise
        _print_stored(ctx, stored)
    return stored


def _print_stored(ctx: click.Context, stored: Sequence[UUID]) -> None:
    """Print the ids in one document, unless they were printed as they came."""
    if wants_table(ctx):
        return
    try:
        with incidentally():
            print_document(ctx, {"job_ids": [str(job_id) for job_id in stored]})
    except OSError as error:
        told = f"{len(stored)} jobs are stored, but their ids cannot be written"
        raise PartlyDone(f"{told}: {error.strerror or error}") from error


def _send(ctx: click.Context, lines: Iterator[tuple[int, JobSpec]], stored: list[UUID]) -> None:
    from jobqueue.client import batches  # noqa: PLC0415 - start-up time of --help

    client = open_client(ctx)
    numbers: deque[int] = deque()
    try:
        for batch in batches(_counted(lines, numbers)):
            answers = client.submit_many(batch)
            for answer in answers:
                numbers.popleft()
                stored.append(answer.job_id)
            if wants_table(ctx):
                with incidentally():
                    for answer in answers:
                        click.echo(str(answer.job_id))
    except JobQueueError as error:
        _tell_lines(error, numbers)
        if not stored:
            raise
        told = f"{len(stored)} jobs are stored, {_rest(error)}: {error.message}"
        raise PartlyDone(told) from error
    except OSError as error:  # their lines cannot be read, or their ids not be written
        if not stored:
            raise
        told = f"{len(stored)} jobs are stored, the rest is not: {error.strerror or error}"
        raise PartlyDone(told) from error


def _rest(error: JobQueueError) -> str:
    """Tell what became of those that were not answered."""
    if isinstance(error, Unavailable | DeadlineExceeded):
        return "it is not known whether the next batch is, the rest is not"
    return "the rest is not"


class PartlyDone(click.ClickException):
    """Some batches are stored, then one failed."""

    exit_code = ExitCode.PARTLY_DONE


def _counted(lines: Iterator[tuple[int, JobSpec]], numbers: deque[int]) -> Iterator[JobSpec]:
    for number, spec in lines:
        numbers.append(number)
        yield spec


def _tell_lines(error: JobQueueError, numbers: deque[int]) -> None:
    error.message = _with_lines(error.message, numbers)
    if isinstance(error, InvalidArgument):
        error.violations = tuple(
            replace(fault, field=_with_lines(fault.field, numbers)) for fault in error.violations
        )


def _with_lines(message: str, numbers: deque[int]) -> str:
    """Turn places in the batch (``jobs[3].queue``) into lines of the file."""

    def line(place: re.Match[str]) -> str:
        index = int(place[1])
        return f"line {numbers[index]}" if index < len(numbers) else place[0]

    return re.sub(r"jobs\[(\d+)\]", line, message)


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - only opening it is guarded
    except OSError as error:
        fault = f"cannot read {path}: {error.strerror}"
        raise click.BadParameter(fault, param_hint="'--from-file'") from error
    with file:
        yield file


def wait_for(ctx: click.Context, job_ids: list[UUID], timeout_s: float | None) -> None:
    """Return when all jobs are DONE; exit with 8 when one ended DEAD_LETTERED, 9 on time-out."""
    client = open_client(ctx)
    started = monotonic()
    dead = False
    for job_id in job_ids:
        left = None if timeout_s is None else max(started + timeout_s - monotonic(), 0.001)
        job = client.wait(job_id, timeout_s=left)
        if job.status is JobStatus.DEAD_LETTERED:
            dead = True
            print_notice(f"error: {death_notice(job)}")
    if dead:
        ctx.exit(ExitCode.DEAD_LETTERED)


def death_notice(job: Job) -> str:
    """Return one line about the end of a job."""
    why = f": {visible(job.last_error.splitlines()[0])}" if job.last_error else ""
    return f"job {job.job_id} ended DEAD_LETTERED ({job.reason}){why}"
