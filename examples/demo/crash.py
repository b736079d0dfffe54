"""Kills a worker at a moment when it certainly has jobs in its hands."""

import signal
from uuid import UUID

from examples.demo.programs import DemoError, Interrupts, Program
from jobqueue.client import Client, JobFilter, JobStatus

_SETTLE_S = 0.2
"""What was on its way to the database when the worker stopped has arrived by then."""
_TRIES = 50


def crash(
    client: Client, queue: str, worker: Program, worker_id: str, interrupts: Interrupts
) -> frozenset[UUID]:
    """Kill -9 the worker while it runs jobs of the queue; return those jobs.

    It is held still first: a job here takes milliseconds, so what it runs would change between
    the look and the kill. Raises DemoError when it never runs any.
    """
    for _ in range(_TRIES):
        worker.send(signal.SIGSTOP)
        interrupts.pause(_SETTLE_S)
        held = _held(client, queue, worker_id)
        if held:
            worker.kill()
            return held
        worker.send(signal.SIGCONT)
        interrupts.pause(_SETTLE_S)
    raise DemoError(f"{worker_id} runs no job that it could be killed with")


def _held(client: Client, queue: str, worker_id: str) -> frozenset[UUID]:
    running = client.list(JobFilter(queue, statuses=frozenset({JobStatus.RUNNING})))
    return frozenset(job.job_id for job in running if job.worker_id == worker_id)
