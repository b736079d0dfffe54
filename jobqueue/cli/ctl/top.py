"""``jq-ctl top``: the system as it goes, frame by frame."""

import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from jobqueue.cli.ctl import views
from jobqueue.cli.ctl.commands import Verb
from jobqueue.cli.ctl.options import some_seconds
from jobqueue.cli.ctl.output import print_entry, wants_table
from jobqueue.cli.ctl.session import open_client
from jobqueue.cli.ctl.text import print_line, print_notice, print_table
from jobqueue.errors import Aborted, DeadlineExceeded, JobQueueError, Unavailable

if TYPE_CHECKING:  # both bring gRPC or rich, which a --help need not wait for
    from jobqueue.cli.ctl.frames import Frame
    from jobqueue.client import Client

T = TypeVar("T")

PASSING = (Unavailable, DeadlineExceeded, Aborted)
"""What a later look may find gone. Anything else ends the command."""

_SHORTEST_S = 0.1


def interval(text: str) -> float:
    """Read a duration that leaves the server time for others."""
    value = some_seconds(text)
    if value < _SHORTEST_S:
        raise click.BadParameter(f"must be at least {_SHORTEST_S} seconds")
    return value


interval.__name__ = "seconds"


class View(Protocol):
    """Where frames are shown."""

    def show(self, frame: "Frame") -> None:
        """Show the next frame."""

    def fail(self, error: JobQueueError) -> None:
        """Tell that there is none, and that it will be tried again."""

    def look(self, ask: Callable[[], T]) -> T:
        """Return ``ask()``."""

    def rest(self, seconds: float) -> None:
        """Wait between frames."""


@click.command(
    cls=Verb,
    examples=[
        "jq-ctl top",
        "jq-ctl top --queue emails --queue images --interval 5",
        "jq-ctl top --count 2 --output json | jq '.queues[] | {queue, done_per_second}'",
    ],
)
@click.option(
    "--interval", type=interval, default=2.0, show_default=True, help="Rest between frames."
)
@click.option(
    "--count",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Frames; 0: until it is stopped.",
)
@click.option("--queue", "queues", multiple=True, help="Only this queue; repeatable.")
@click.pass_context
def top(ctx: click.Context, interval: float, count: int, queues: Sequence[str]) -> None:
    """Watch queues, workers and services as they go.

    Queues come deepest first, with jobs a second since the frame before. On a terminal each frame
    takes the place of the last, and q or Ctrl-C ends it; in a pipe they follow each other. JSON is
    one object a line. A server that is away is asked again until it is back.
    """
    client = open_client(ctx)
    with _view(ctx) as view:
        _watch(client, view, queues, interval, count)


def _watch(
    client: "Client", view: View, queues: Sequence[str], interval: float, count: int
) -> None:
    """Show ``count`` frames. Raises why there is none when the last look failed."""
    from jobqueue.cli.ctl.frames import Series  # noqa: PLC0415 - start-up time of --help

    series = Series(queues)
    for number in itertools.count(1):
        try:
            found = view.look(client.status)
        except PASSING as error:
            if number == count:
                raise
            view.fail(error)
        else:
            view.show(series.frame(found, datetime.now(UTC)))
        if number == count:
            return
        view.rest(interval)


def _view(ctx: click.Context) -> AbstractContextManager[View]:
    if not wants_table(ctx) or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return nullcontext(Stream(ctx))
    from jobqueue.cli.ctl.screen import Screen  # noqa: PLC0415 - start-up time of --help

    return Screen()


class Stream:
    """Writes frames one after another."""

    def __init__(self, ctx: click.Context) -> None:
        self._ctx = ctx
        self._trouble: type[JobQueueError] | None = None

    def show(self, frame: "Frame") -> None:
        """Write one frame at once."""
        self._trouble = None
        if wants_table(self._ctx):
            _print_frame(frame)
        else:
            print_entry(self._ctx, document(frame))

    def fail(self, error: JobQueueError) -> None:
        """Write a line to stderr, once for each kind of trouble: stdout stays parseable."""
        if type(error) is not self._trouble:
            self._trouble = type(error)
            print_notice(f"error: {error.message}; trying again")

    def look(self, ask: Callable[[], T]) -> T:
        """Return ``ask()``."""
        return ask()

    def rest(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def _print_frame(frame: "Frame") -> None:
    for line in frame.heading():
        print_line(line)
    for table in (frame.components(), frame.queues(), frame.workers()):
        print_line("")
        print_table(table.columns, table.rows)
    print_line("")


def document(frame: "Frame") -> views.Document:
    """Return a frame: when, and what ``status`` shows, with rates of the queues."""
    system = views.system(frame.system)
    queues = [
        {
            **views.stats(each),
            "entered_per_second": rates and rates.entered,
            "done_per_second": rates and rates.done,
            "dead_lettered_per_second": rates and rates.dead_lettered,
        }
        for each in frame.system.queues
        for rates in (frame.rates[each.queue],)
    ]
    return {"timestamp": views.rfc3339(frame.at), **system, "queues": queues}
