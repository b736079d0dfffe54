"""``jq-ctl queue``: make, change, pause and measure queues."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from jobqueue.cli.ctl import views
from jobqueue.cli.ctl.commands import Noun
from jobqueue.cli.ctl.options import NONE, or_none, seconds, some_seconds, weights
from jobqueue.cli.ctl.output import print_document, print_list, wants_table
from jobqueue.cli.ctl.session import open_client
from jobqueue.cli.ctl.text import cell, print_line, print_table, rough
from jobqueue.domain.queue import Queue, QueueStats
from jobqueue.domain.state import JobStatus


@click.group(
    cls=Noun,
    examples=["jq-ctl queue create emails --max-retries 5", "jq-ctl queue stats"],
)
def queue() -> None:
    """Make, change, pause and measure queues."""


def count(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a whole number") from error


def _policy_options(command: Callable[..., None]) -> Callable[..., None]:
    none, default = "none: no", "none: the server's default"
    for option in (
        click.option("--max-running", type=or_none(count), help=f"Most at once; {none} limit."),
        click.option("--max-delay", type=or_none(seconds), help=f"Longest backoff; {default}."),
        click.option("--base-delay", type=or_none(seconds), help=f"First backoff; {default}."),
        click.option(
            "--priority-weights",
            type=or_none(weights),
            metavar="P=N,…",
            help="Shares of the claims by priority (unnamed: 1); none: strict order.",
        ),
        click.option(
            "--ttl", type=or_none(seconds), help=f"TTL of jobs that name none; {none} TTL."
        ),
        click.option(
            "--max-retries",
            type=or_none(count),
            help=f"Retries of jobs that do not say; {default}.",
        ),
    ):
        command = option(command)
    return command


def _policy(flags: dict[str, Any]) -> dict[str, Any]:
    """Return what the flags said, by the names of PolicyFields; ``none`` clears."""
    renamed = {"ttl": "ttl_s", "base_delay": "base_delay_s", "max_delay": "max_delay_s"}
    return {
        renamed.get(name, name): None if value == NONE else value
        for name, value in flags.items()
        if value is not None
    }


@queue.command(
    examples=[
        "jq-ctl queue create emails --max-retries 5 --base-delay 2 --max-delay 600",
        "jq-ctl queue create mixed --priority-weights 9=100,7=10,5=5,0=1 --max-running 20",
    ],
)
@click.argument("name")
@_policy_options
@click.pass_context
def create(ctx: click.Context, /, name: str, **flags: Any) -> None:
    """Make a queue; what is not said takes the server's defaults."""
    _print_queue(ctx, open_client(ctx).create_queue(name, **_policy(flags)))


@queue.command(
    examples=[
        "jq-ctl queue update emails --max-running 4",
        "jq-ctl queue update emails --ttl none",
    ],
)
@click.argument("name")
@_policy_options
@click.pass_context
def update(ctx: click.Context, /, name: str, **flags: Any) -> None:
    """Change what is said; the rest stays."""
    fields = _policy(flags)
    if not fields:
        raise click.UsageError("Nothing to change: give at least one option.")
    _print_queue(ctx, open_client(ctx).update_queue(name, **fields))


@queue.command("list", examples=["jq-ctl queue list", "jq-ctl queue list --output yaml"])
@click.pass_context
def list_queues(ctx: click.Context) -> None:
    """List all queues with their policies."""
    queues = open_client(ctx).list_queues()
    if wants_table(ctx):
        _print_queues(queues)
    else:
        print_list(ctx, "queues", map(views.queue, queues))


@queue.command(
    examples=["jq-ctl queue stats", "jq-ctl queue stats emails --window 300"],
)
@click.argument("name", required=False)
@click.option(
    "--window",
    type=some_seconds,
    help="Seconds of averages and rates, in whole minutes.  [default: 3600]",
)
@click.pass_context
def stats(ctx: click.Context, name: str | None, window: float | None) -> None:
    """Show depth by status, totals, processing time and error rate."""
    figures = open_client(ctx).queue_stats(name, window_s=window)
    if wants_table(ctx):
        print_stats(figures)
    else:
        print_list(ctx, "stats", map(views.stats, figures))


@queue.command(examples=["jq-ctl queue pause emails"])
@click.argument("name")
@click.pass_context
def pause(ctx: click.Context, name: str) -> None:
    """Stop claims from a queue; submissions go on."""
    _print_queue(ctx, open_client(ctx).pause_queue(name))


@queue.command(examples=["jq-ctl queue resume emails"])
@click.argument("name")
@click.pass_context
def resume(ctx: click.Context, name: str) -> None:
    """Let claims from a paused queue go on."""
    _print_queue(ctx, open_client(ctx).resume_queue(name))


@queue.command(examples=["jq-ctl queue delete emails", "jq-ctl queue delete emails --force"])
@click.argument("name")
@click.option("--force", is_flag=True, help="Cancel its jobs; ends when none is left.")
@click.pass_context
def delete(ctx: click.Context, name: str, *, force: bool) -> None:
    """Delete a queue; finished jobs stay readable."""
    # With --force the server answers when the last handler has stopped: a wait, not a call.
    bound = math.inf if force else None
    cancelled = open_client(ctx).delete_queue(name, force=force, timeout_s=bound)
    if wants_table(ctx):
        print_line(f"DELETED ({cancelled} jobs cancelled)" if cancelled else "DELETED")
    else:
        print_document(ctx, {"cancelled_count": cancelled})


def _print_queue(ctx: click.Context, one: Queue) -> None:
    if wants_table(ctx):
        _print_queues([one])
    else:
        print_document(ctx, views.queue(one))


def _print_queues(queues: Iterable[Queue]) -> None:
    columns = (
        *("NAME", "PAUSED", "MAX RETRIES", "TTL", "BASE DELAY", "MAX DELAY"),
        *("WEIGHTS", "MAX RUNNING", "CREATED"),
    )
    print_table(columns, [_queue_row(each) for each in queues])


def _queue_row(each: Queue) -> Sequence[str]:
    policy = each.policy
    shares = {p: policy.priority_weights[p] for p in sorted(policy.priority_weights, reverse=True)}
    values = (
        *(each.name, each.paused, policy.max_retries, policy.ttl_s, policy.retry.base_delay_s),
        *(policy.retry.max_delay_s, shares, policy.max_running, each.created_at),
    )
    return [cell(value) for value in values]


def print_stats(figures: Iterable[QueueStats]) -> None:
    """Print the figures of queues, a queue a line."""
    columns = (
        *("QUEUE", *JobStatus, "DONE TOTAL", "DEAD TOTAL", "AVERAGE", "ERRORS"),
        *("OLDEST", "UNHANDLED", "PAUSED"),
    )
    print_table(columns, [_stats_row(each) for each in figures])


def _stats_row(each: QueueStats) -> Sequence[str]:
    errors = "-" if each.error_rate is None else f"{each.error_rate:.1%}"
    return (
        cell(each.queue),
        *(str(each.depth[status]) for status in JobStatus),
        *(str(each.done_total), str(each.dead_total), rough(each.average_processing_s), errors),
        *(rough(each.oldest_runnable_s), str(each.unhandled), cell(each.paused)),
    )
