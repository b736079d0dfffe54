"""What the demo submits."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from jobqueue.client import Client, JobSpec, batches

FILES, TROUBLE = "stdlib", "trouble"
"""The two queues."""

COMMAND, HANDLER = "hash-command", "hash-file"
"""The two ways to hash a file, as job types."""

_EVERY_NTH_BY_COMMAND = 4
_FAILING = 5
_MAX_RETRIES = 3


@dataclass(frozen=True, slots=True)
class Trouble:
    """The jobs that were made to fail, and how many retries they had."""

    always: frozenset[UUID]
    once: frozenset[UUID]
    max_retries: int


def submit_files(client: Client, files: Sequence[Path]) -> dict[UUID, Path]:
    """Submit one job a file; return the path of each."""
    # A short backoff: what the killed worker held should run again soon.
    client.create_queue(FILES, base_delay_s=0.5, max_delay_s=2.0)
    specs = (JobSpec(FILES, os.fsencode(path), type=_way(n)) for n, path in enumerate(files))
    ids = [answer.job_id for batch in batches(specs) for answer in client.submit_many(batch)]
    return dict(zip(ids, files, strict=True))


def _way(number: int) -> str:
    return HANDLER if number % _EVERY_NTH_BY_COMMAND else COMMAND


def submit_trouble(client: Client) -> Trouble:
    """Submit jobs that always fail and jobs that fail once."""
    client.create_queue(TROUBLE, max_retries=_MAX_RETRIES, base_delay_s=0.5, max_delay_s=2.0)
    types = ["always-fails"] * _FAILING + ["fails-once"] * _FAILING
    ids = [a.job_id for a in client.submit_many([JobSpec(TROUBLE, type=kind) for kind in types])]
    return Trouble(frozenset(ids[:_FAILING]), frozenset(ids[_FAILING:]), _MAX_RETRIES)
