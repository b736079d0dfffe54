"""Submits the mixture at a steady pace, and says each ten seconds how many were taken."""

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator

from examples.load.mixture import MAIL, REPORTS, Load, draw
from jobqueue.client import Client
from jobqueue.errors import AlreadyExists, JobQueueError

_TICK_S = 0.5
_REPORT_S = 10.0


def main() -> None:
    """Submit until the time is over or somebody ends it."""
    load = Load.of(os.environ)
    with Client(os.environ.get("JQ_SERVER_ADDR") or "localhost:50051") as client:
        make_queues(client)
        submit(client, load)


def make_queues(client: Client) -> None:
    """Make the queues that are missing."""
    for name in (MAIL, REPORTS):
        with contextlib.suppress(AlreadyExists):
            client.create_queue(name)


def submit(client: Client, load: Load) -> None:
    """Submit a batch a tick. One that is not taken is told, and not repeated."""
    dice = random.Random()  # noqa: S311 - no secret depends on it
    taken, told = 0, time.monotonic()
    for due in batch_sizes(load):
        try:
            taken += len(client.submit_many([draw(load, dice) for _ in range(due)]))
        except JobQueueError as error:
            print(f"not taken: {error}", file=sys.stderr, flush=True)
        if time.monotonic() - told >= _REPORT_S:
            told = time.monotonic()
            print(f"{taken} jobs submitted", flush=True)
    print(f"{taken} jobs submitted", flush=True)


def batch_sizes(load: Load) -> Iterator[int]:
    """Yield how many jobs are due, tick by tick; wait between them.

    What is late is not made up for: after an outage there is no flood.
    """
    begun, carried = time.monotonic(), 0.0
    while not load.seconds or time.monotonic() - begun < load.seconds:
        carried += load.jobs_per_s * _TICK_S
        if carried >= 1:
            yield int(carried)
            carried %= 1
        time.sleep(_TICK_S)


if __name__ == "__main__":
    main()
