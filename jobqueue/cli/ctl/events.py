"""``jq-ctl events``: watch what happens to jobs, and deal with what Kafka refused."""

from collections.abc import Sequence

import click

from jobqueue.cli.ctl import views
from jobqueue.cli.ctl.commands import Noun
from jobqueue.cli.ctl.output import print_document, print_entry, print_list, wants_table
from jobqueue.cli.ctl.session import open_client
from jobqueue.cli.ctl.text import cell, moment, print_line, print_table
from jobqueue.domain.event import ParkedEvent
from jobqueue.domain.job import JobEvent
from jobqueue.domain.state import EVENT_TYPES

_TYPES = click.Choice(sorted(set(EVENT_TYPES.values())))


@click.group(
    cls=Noun,
    examples=[
        "jq-ctl events tail --follow --queue emails",
        "jq-ctl events parked",
        "jq-ctl events resend --all",
        "jq-ctl events disconnect",
    ],
)
def events() -> None:
    """Watch what happens to jobs; send again what Kafka refused; end the stream to it."""


@events.command(
    examples=[
        "jq-ctl events tail",
        "jq-ctl events tail --follow --type job.failed --type job.dead-lettered",
        "jq-ctl events tail --from 4711 --output json | jq -r .job_id",
    ],
)
@click.option("--queue", help="Of this queue only.")
@click.option("--type", "types", multiple=True, type=_TYPES, help="Of this type; repeatable.")
@click.option("--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option(
    "--from",
    "after",
    type=click.IntRange(min=0),
    metavar="EVENT_ID",
    help="Begin after this event.  [default: the newest 1,000 of all; with --follow: what comes]",
)
@click.pass_context
def tail(
    ctx: click.Context, queue: str | None, types: Sequence[str], after: int | None, *, follow: bool
) -> None:
    """Print transitions, one a line: the newest ones, or as they come.

    Works with and without Kafka. JSON is one object a line.
    """
    client = open_client(ctx)
    for event in client.tail_events(queue, types=types, after=after, follow=follow):
        if wants_table(ctx):
            print_line("\t".join(_fields(event)))
        else:
            print_entry(ctx, views.event(event))


@events.command(examples=["jq-ctl events parked", "jq-ctl events parked --output json"])
@click.pass_context
def parked(ctx: click.Context) -> None:
    """List events that Kafka refused for good, by event id."""
    found = open_client(ctx).parked_events()
    if wants_table(ctx):
        columns = ("EVENT ID", "PARKED", "RESENDING", "TYPE", "JOB ID", "SEQ", "CAUSE")
        print_table(columns, map(_parked_row, found))
    else:
        print_list(ctx, "events", map(views.parked_event, found))


@events.command(examples=["jq-ctl events resend 4711 4712", "jq-ctl events resend --all"])
@click.argument("event_ids", type=click.IntRange(min=1), nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that are parked.")
@click.pass_context
def resend(ctx: click.Context, event_ids: Sequence[int], *, everything: bool) -> None:
    """Send parked events to Kafka again; print how many will be sent.

    They come late, under their old sequence. Those that are refused again stay parked.
    """
    if everything == bool(event_ids):
        raise click.UsageError("give EVENT_IDs or --all, not both")
    count = open_client(ctx).resend_events(event_ids, everything=everything)
    if wants_table(ctx):
        print_line(str(count))
    else:
        print_document(ctx, {"count": count})


@events.command(examples=["jq-ctl events disconnect", "jq-ctl events disconnect --force"])
@click.option("--force", is_flag=True, help="Drop events that wait for Kafka or are parked.")
@click.pass_context
def disconnect(ctx: click.Context, *, force: bool) -> None:
    """Keep events for Kafka no longer, when it is switched off for good.

    First take kafka.brokers from the settings of every server. Until this is done, no partition of
    events that Kafka has not got is dropped. A server with kafka.brokers begins anew.
    """
    count = open_client(ctx).disconnect_kafka(force=force)
    if wants_table(ctx):
        print_line(f"DISCONNECTED ({count} events dropped)" if count else "DISCONNECTED")
    else:
        print_document(ctx, {"count": count})


def _fields(event: JobEvent) -> Sequence[str]:
    return (
        *(str(event.event_id), moment(event.at), f"{event.type:<17}", str(event.job_id)),
        *(f"#{event.sequence}", cell(event.queue), cell(event.reason), cell(event.worker_id)),
    )


def _parked_row(found: ParkedEvent) -> Sequence[str]:
    event = found.event
    values = (
        *(event.event_id, found.parked_at, found.resending, event.type),
        *(event.job_id, event.sequence, found.cause),
    )
    return [cell(value) for value in values]
