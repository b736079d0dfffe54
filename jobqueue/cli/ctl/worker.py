"""``jq-ctl worker``: see workers, drain them, end them."""

from collections.abc import Iterable

import click

from jobqueue.cli.ctl import views
from jobqueue.cli.ctl.commands import Noun
from jobqueue.cli.ctl.output import print_document, print_list, wants_table
from jobqueue.cli.ctl.session import open_client
from jobqueue.cli.ctl.text import cell, print_line, print_table
from jobqueue.domain.worker import Worker


@click.group(cls=Noun, examples=["jq-ctl worker list", "jq-ctl worker drain host1-4711-x7k2"])
def worker() -> None:
    """See workers, drain them, end them."""


@worker.command("list", examples=["jq-ctl worker list", "jq-ctl worker list --output json"])
@click.pass_context
def list_workers(ctx: click.Context) -> None:
    """List all registered workers."""
    workers = open_client(ctx).list_workers()
    if wants_table(ctx):
        print_workers(workers)
    else:
        print_list(ctx, "workers", map(views.worker, workers))


@worker.command(examples=["jq-ctl worker drain host1-4711-x7k2"])
@click.argument("worker_id")
@click.pass_context
def drain(ctx: click.Context, worker_id: str) -> None:
    """Let a worker finish what it runs and claim nothing more; it stays."""
    open_client(ctx).drain_worker(worker_id)
    _print_requested(ctx, "DRAIN_REQUESTED")


@worker.command(examples=["jq-ctl worker shutdown host1-4711-x7k2"])
@click.argument("worker_id")
@click.pass_context
def shutdown(ctx: click.Context, worker_id: str) -> None:
    """Drain a worker, then end it."""
    open_client(ctx).shutdown_worker(worker_id)
    _print_requested(ctx, "SHUTDOWN_REQUESTED")


def _print_requested(ctx: click.Context, word: str) -> None:
    if wants_table(ctx):
        print_line(word)
    else:
        print_document(ctx, {})


def print_workers(workers: Iterable[Worker]) -> None:
    """Print workers, one a line."""
    columns = (
        *("WORKER ID", "STATUS", "RUNNING", "CONCURRENCY", "QUEUES", "TYPES"),
        *("MODE", "VERSION", "STARTED", "LAST BEAT"),
    )
    print_table(columns, [_row(each) for each in workers])


def _row(each: Worker) -> list[str]:
    facts = each.facts
    values = (
        *(facts.worker_id, each.status, each.running, facts.concurrency, facts.queues),
        *(facts.types, facts.mode, facts.version, each.started_at, each.last_beat_at),
    )
    return [cell(value) for value in values]
