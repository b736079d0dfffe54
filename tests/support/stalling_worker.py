"""A worker program for tests that stop, starve or kill it. Prints one JSON object a line.

Usage: ``python -m tests.support.stalling_worker DSN MODE SETTINGS`` where SETTINGS is the JSON of
LeaseSettings' fields. MODE: ``hold`` claims one job and settles it when a line comes on stdin;
``stall`` claims one job and lets the loop stand still; ``wait`` waits in vain for its database.
"""

import asyncio
import json
import os
import sys
import time

from jobqueue.domain.outcome import Completed
from jobqueue.errors import Unavailable
from jobqueue.lease import holder
from jobqueue.lease.direct import DirectLeases
from jobqueue.lease.interface import LeaseGone, News
from jobqueue.lease.settings import LeaseSettings
from tests.support.leases import take_at_last
from tests.support.settling import settled
from tests.support.workers import facts


def say(**content: object) -> None:
    """Print one line."""
    print(json.dumps(content), flush=True)  # noqa: T201 - its output is its purpose


def hear(news: News) -> None:
    """Print what happened to the lease."""
    if isinstance(news, LeaseGone):
        say(gone=news.lease.job)


async def wait(leases: DirectLeases, settings: LeaseSettings) -> None:
    """Wait longer than a worker may stand still, and say whether there was a database."""
    holder.OPEN_TIMEOUT_S = 3 * settings.stall_limit_s
    try:
        await leases.open(facts("waiting", pid=os.getpid()))
    except Unavailable:
        say(opened=False)


async def main(dsn: str, mode: str, settings: LeaseSettings) -> None:
    """Claim one job and do what the mode says."""
    leases = DirectLeases(dsn, settings, ["q"], ["t"])
    leases.on_news(hear)
    if mode == "wait":
        await wait(leases, settings)
        return
    await leases.open(facts("stalling", pid=os.getpid()))
    job = await take_at_last(leases)
    leases.beat()
    say(pid=os.getpid(), keeper=leases._keeper.pid, token=job.lease.token)
    if mode == "stall":
        time.sleep(3600)  # noqa: ASYNC251 - the loop is to stand still
    await asyncio.to_thread(sys.stdin.readline)
    say(settled=await settled(leases, job, Completed(b"late")))
    await leases.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], LeaseSettings(**json.loads(sys.argv[3]))))
