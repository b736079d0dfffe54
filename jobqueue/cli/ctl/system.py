"""``jq-ctl status`` and ``jq-ctl version``: how everything is, and which version it is."""

from typing import TYPE_CHECKING

import click

from jobqueue.cli.ctl import views
from jobqueue.cli.ctl.commands import Verb
from jobqueue.cli.ctl.output import print_document, wants_table
from jobqueue.cli.ctl.queue import print_stats
from jobqueue.cli.ctl.session import open_client
from jobqueue.cli.ctl.text import cell, moment, print_line, print_table
from jobqueue.cli.ctl.worker import print_workers

if TYPE_CHECKING:  # the client brings gRPC, which a --help need not wait for
    from jobqueue.client import SystemStatus


@click.command(cls=Verb, examples=["jq-ctl status", "jq-ctl status --output json"])
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show how server, database, queues and workers are."""
    found = open_client(ctx).status()
    if wants_table(ctx):
        _print_status(found)
    else:
        print_document(ctx, views.system(found))


def _print_status(found: "SystemStatus") -> None:
    print_line(f"jq-server {cell(found.version)}, started {moment(found.started_at)}")
    print_line("")
    parts = [(cell(each.name), cell(each.state), cell(each.detail)) for each in found.components]
    print_table(("COMPONENT", "STATE", "DETAIL"), parts)
    print_line("")
    print_stats(found.queues)
    print_line("")
    print_workers(found.workers)
    if found.unhandled:
        print_line("\nWaiting, as no worker that met them had a handler:")
        rows = [(cell(each.queue), cell(each.type), str(each.count)) for each in found.unhandled]
        print_table(("QUEUE", "TYPE", "JOBS"), rows)


@click.command(cls=Verb, examples=["jq-ctl version", "jq-ctl --version     # asks no server"])
@click.pass_context
def version(ctx: click.Context) -> None:
    """Show the versions of this program and of the server."""
    from jobqueue.runtime import version as own  # noqa: PLC0415 - start-up time of --help

    if wants_table(ctx):
        print_line(f"jq-ctl     {own.version_line()}")
    server = open_client(ctx).version()
    if wants_table(ctx):
        print_line(f"jq-server  {cell(server.version)} ({cell(server.commit)})")
        return
    client = {"client_version": own.version(), "client_commit": own.commit()}
    print_document(ctx, {"version": server.version, "commit": server.commit, **client})
