"""``jq-ctl job``: submit jobs, look at them, change their course."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import Any

import click

from jobqueue.cli.ctl import views
from jobqueue.cli.ctl.commands import Noun
from jobqueue.cli.ctl.exit_codes import ExitCode
from jobqueue.cli.ctl.options import label, priority, seconds, some_seconds, status, time
from jobqueue.cli.ctl.output import print_document, print_entry, print_list, wants_table
from jobqueue.cli.ctl.session import open_client
from jobqueue.cli.ctl.submit import death_notice, submit_file, submit_one, wait_for
from jobqueue.cli.ctl.text import cell, moment, print_line, print_notice, print_record, print_table
from jobqueue.domain.job import Job, JobEvent, JobFilter
from jobqueue.domain.state import JobStatus

_ID = "8c5c62a1-70f4-4a5c-9a3f-5a0f2c6d1e77"
_MAX_PAGE = 1_000
_PATIENCE_S = 3.0
"""A list of some jobs is what was found by then: the rest may be behind millions of others."""


@click.group(
    cls=Noun,
    examples=[
        "jq-ctl job submit --queue emails --payload hello",
        "jq-ctl job list --status FAILED",
        f"jq-ctl job logs {_ID}",
    ],
)
def job() -> None:
    """Submit jobs, look at them, change their course."""


@job.command(
    examples=[
        "jq-ctl job submit --queue emails --payload 'Hello' --type send",
        "jq-ctl job submit --queue images --payload @photo.jpg --priority high --wait",
        "jq-ctl job submit --queue reports --payload '' --not-before 2030-01-31T18:00:00+01:00",
        """jq-ctl job submit --from-file - <<< '{"queue": "emails", "payload": "hello"}'""",
    ],
)
@click.option("--queue", help="Queue; with --from-file for lines that name none.")
@click.option("--payload", help="TEXT, @FILE, or - for stdin; sent byte for byte.")
@click.option("--type", help="Handler name.")
@click.option("--priority", type=priority, help="0 to 9 (9 first), critical, high, normal, low.")
@click.option("--max-retries", type=int, help="Retries after the first attempt.")
@click.option("--ttl", type=seconds, help="Dead-letter the job if not started in this time.")
@click.option("--delay", type=seconds, help="Start no earlier than this from now.")
@click.option("--not-before", type=time, help="Start no earlier; RFC 3339 with a time zone.")
@click.option("--run-timeout", type=seconds, help="End an attempt that runs longer.")
@click.option("--idempotency-key", help="Same key, same content: the existing job's id.")
@click.option("--tenant", help="Namespace of idempotency keys.")
@click.option(
    "--label", "labels", type=label, multiple=True, metavar="KEY=VALUE", help="Repeatable."
)
@click.option("--from-file", metavar="JSONL", help="One job a line; - for stdin.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit 8 if DEAD_LETTERED.")
@click.option("--wait-timeout", type=some_seconds, help="Exit 9 when --wait takes longer.")
@click.pass_context
def submit(ctx: click.Context, /, **flags: Any) -> None:
    """Submit a job, or many from a file; print the ids."""
    path, payload = flags.pop("from_file"), flags.pop("payload")
    wait, wait_timeout = flags.pop("wait"), flags.pop("wait_timeout")
    if wait_timeout is not None and not wait:
        raise click.UsageError("--wait-timeout needs --wait.")
    fields = _spec_fields(flags)
    if path is None:
        job_ids = submit_one(ctx, fields, _needed(fields, payload))
    elif payload is None:
        job_ids = submit_file(ctx, fields, path)
    else:
        raise click.UsageError("--payload and --from-file cannot be given together.")
    if wait:
        wait_for(ctx, job_ids, wait_timeout)


def _spec_fields(flags: dict[str, Any]) -> dict[str, Any]:
    """Return what the flags said, by the names of JobSpec."""
    renamed = {"ttl": "ttl_s", "delay": "delay_s", "run_timeout": "timeout_s"}
    labels = dict(flags.pop("labels"))
    fields = {renamed.get(name, name): value for name, value in flags.items() if value is not None}
    return {**fields, "labels": labels} if labels else fields


def _needed(fields: dict[str, Any], payload: str | None) -> str:
    if "queue" not in fields:
        raise click.UsageError("Missing option '--queue'.")
    if payload is None:
        raise click.UsageError("Missing option '--payload'.")
    return payload


@job.command("status", examples=[f"jq-ctl job status {_ID}"])
@click.argument("job_id")
@click.pass_context
def show(ctx: click.Context, job_id: str) -> None:
    """Show everything about a job."""
    found = open_client(ctx).get(job_id)
    if wants_table(ctx):
        print_record(_record(found))
    else:
        print_document(ctx, views.job(found))


def _record(found: Job) -> Iterator[tuple[str, str]]:
    shown = {
        "id": found.job_id,
        "queue": found.queue,
        "type": found.type,
        "status": found.status,
        "reason": found.reason,
        "priority": found.priority,
        "payload": found.payload,
        "result": found.result,
        "last error": found.last_error,
        "attempt": found.attempt,
        "retry count": f"{found.retry_count} of {found.max_retries}",
        "worker": found.worker_id,
        "created": found.created_at,
        "not before": found.not_before,
        "started": found.started_at,
        "completed": found.finished_at,
    }
    rare = {
        "result truncated": found.result_truncated,
        "progress": _progress(found),
        "cancel requested": found.cancel_requested,
        "ttl (s)": found.ttl_s,
        "run timeout (s)": found.timeout_s,
        "idempotency key": found.idempotency_key,
        "tenant": found.tenant,
        "labels": dict(found.labels),
        "trace context": dict(found.trace_context),
    }
    return ((name, cell(value)) for name, value in {**shown, **_said(rare)}.items())


def _progress(found: Job) -> str:
    """Return what a running attempt said of itself, such as ``40 % · resizing``."""
    if found.progress is None:
        return ""
    percent = "" if found.progress.percent is None else f"{found.progress.percent} %"
    return " · ".join(filter(None, (percent, found.progress.message)))


def _said(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}


@job.command(examples=[f"jq-ctl job logs {_ID}"])
@click.argument("job_id")
@click.pass_context
def logs(ctx: click.Context, job_id: str) -> None:
    """Show the transitions of a job, in order."""
    events = _events(ctx, job_id)
    if not wants_table(ctx):
        print_list(ctx, "events", map(views.event, events))
        return
    columns = ("SEQ", "TIME", "FROM", "TO", "REASON", "ATTEMPT", "WORKER", "DETAIL")
    _print_tables(columns, map(_event_row, events))


def _events(ctx: click.Context, job_id: str) -> Iterator[JobEvent]:
    """Yield the transitions of a job as they are read."""
    client, token = open_client(ctx), ""
    while True:
        page = client.events_page(job_id, page_token=token)
        yield from page.events
        token = page.next_page_token
        if not token:
            return


def _event_row(event: JobEvent) -> Sequence[str]:
    values = (
        *(event.sequence, event.at, event.from_status, event.to_status, event.reason),
        *(event.attempt, event.worker_id, event.detail),
    )
    return [cell(value) for value in values]


@job.command(examples=[f"jq-ctl job watch {_ID}"])
@click.argument("job_id")
@click.pass_context
def watch(ctx: click.Context, job_id: str) -> None:
    """Print a line now and after every change, until the job has ended.

    Exits with 0 when it ended DONE, with 8 when it ended DEAD_LETTERED.
    """
    last = None
    for last in open_client(ctx).watch(job_id):
        if wants_table(ctx):
            print_line("\t".join(_change(last)))
        else:
            print_entry(ctx, views.job(last))
    if last is not None and last.status is JobStatus.DEAD_LETTERED:
        print_notice(f"error: {death_notice(last)}")
        ctx.exit(ExitCode.DEAD_LETTERED)


def _change(seen: Job) -> Iterator[str]:
    at = seen.finished_at or seen.started_at or seen.created_at
    yield moment(at)
    yield f"{seen.status:<13}"
    yield f"{seen.reason:<18}"
    yield f"attempt {seen.attempt}"
    yield cell(seen.worker_id)


@job.command(
    "list",
    examples=[
        "jq-ctl job list --queue emails --status failed,dead_lettered",
        "jq-ctl job list --all --output json | jq -r '.jobs[].job_id'",
    ],
)
@click.option("--queue", help="Only this queue.")
@click.option("--status", "statuses", type=status, multiple=True, help="Only these; any case.")
@click.option("--type", help="Only this type.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Most.")
@click.option("--page-token", default="", help="Go on where a list with the same filter ended.")
@click.option("--all", "everything", is_flag=True, help="All jobs, however many.")
@click.pass_context
def list_jobs(ctx: click.Context, /, **flags: Any) -> None:
    """List jobs, newest first."""
    wanted = JobFilter(flags["queue"], flags["type"], frozenset().union(*flags["statuses"]))
    limit = None if flags["everything"] else flags["limit"]
    after = {"next_page_token": ""}
    jobs = _pages(ctx, wanted, limit, flags["page_token"], after)
    if not wants_table(ctx):
        print_list(ctx, "jobs", (views.job(found, bodies=False) for found in jobs), after)
        return
    columns = ("JOB ID", "QUEUE", "TYPE", "STATUS", "REASON", "PRIORITY", "ATTEMPT", "CREATED")
    _print_tables(columns, map(_list_row, jobs))
    if after["next_page_token"]:
        print_notice(f"more: --page-token {after['next_page_token']}")


def _pages(
    ctx: click.Context, wanted: JobFilter, limit: int | None, token: str, after: dict[str, str]
) -> Iterator[Job]:
    """Yield up to ``limit`` jobs (None: all); leave the token of the next page in ``after``."""
    client = open_client(ctx)
    left, ends_at = limit, monotonic() + _PATIENCE_S
    while left is None or left > 0:
        size = _MAX_PAGE if left is None else min(left, _MAX_PAGE)
        page = client.list_page(wanted, page_size=size, page_token=token)
        yield from page.jobs
        left = None if left is None else left - len(page.jobs)
        token = page.next_page_token
        if not token or (left is not None and monotonic() > ends_at):
            break
    after["next_page_token"] = token


def _print_tables(columns: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    """Print tables of up to a thousand rows, so that the first lines come at once."""
    print_table(columns, islice(rows, _MAX_PAGE))
    while more := list(islice(rows, _MAX_PAGE)):
        print_table((), more)


def _list_row(found: Job) -> Sequence[str]:
    values = (
        *(found.job_id, found.queue, found.type, found.status, found.reason),
        *(found.priority, found.attempt, found.created_at),
    )
    return [cell(value) for value in values]


@job.command(examples=[f"jq-ctl job cancel {_ID}", f"jq-ctl job cancel {_ID} --running"])
@click.argument("job_id")
@click.option("--running", is_flag=True, help="Also when it runs: its handler is stopped.")
@click.pass_context
def cancel(ctx: click.Context, job_id: str, *, running: bool) -> None:
    """Cancel a job; print CANCELLED or CANCEL_REQUESTED."""
    outcome = open_client(ctx).cancel(job_id, running=running)
    if wants_table(ctx):
        print_line(outcome)
    else:
        print_document(ctx, {"outcome": str(outcome)})


@job.command(examples=[f"jq-ctl job retry {_ID}"])
@click.argument("job_id")
@click.pass_context
def retry(ctx: click.Context, job_id: str) -> None:
    """Make a FAILED or DEAD_LETTERED job PENDING again; print its status."""
    retried = open_client(ctx).retry(job_id)
    if wants_table(ctx):
        print_line(retried.status)
    else:
        print_document(ctx, views.job(retried))


@job.command(examples=[f"jq-ctl job delete {_ID}"])
@click.argument("job_id")
@click.pass_context
def delete(ctx: click.Context, job_id: str) -> None:
    """Delete a DONE or DEAD_LETTERED job; its transitions stay readable."""
    open_client(ctx).delete(job_id)
    if wants_table(ctx):
        print_line("DELETED")
    else:
        print_document(ctx, {})
