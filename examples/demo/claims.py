"""What the demo claims when it ends, each checked against what the server answers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from examples.demo.files import digest, printed_digest
from examples.demo.jobs import Trouble
from jobqueue.client import Client, Job, JobEvent, JobFilter, JobStatus, Reason

_CALLS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence, whether it is true, and what was seen."""

    text: str
    true: bool
    seen: str


def file_claims(client: Client, queue: str, paths: Mapping[UUID, Path]) -> Iterator[Claim]:
    """Check that every file was hashed, by exactly one job, to the right digest."""
    listed = Counter(job.job_id for job in client.list(JobFilter(queue)))
    lost = len(paths.keys() - listed.keys())
    yield Claim("no job was lost", not lost, f"{len(paths)} submitted, {lost} lost")
    single = listed.keys() == paths.keys() and set(listed.values()) <= {1}
    yield Claim("no job is there twice", single, f"{listed.total()} listed")
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
        right = sum(map(_is_right, pool.map(client.get, paths), paths.values()))
    text = "every digest equals the one computed directly"
    yield Claim(text, right == len(paths), f"{right} of {len(paths)}")


def _is_right(job: Job, path: Path) -> bool:
    done = job.status is JobStatus.DONE and job.result is not None
    return done and printed_digest(job.result or b"") == digest(path)


def rerun_claims(client: Client, queue: str, held: frozenset[UUID]) -> Iterator[Claim]:
    """Check that what the killed worker held ran again, and why anything did."""
    again = {job.job_id for job in client.list(JobFilter(queue)) if job.attempt > 1}
    yield Claim(
        "what the killed worker was running ran again",
        held <= again,
        f"it held {len(held)}; {len(again)} ran twice",
    )
    why = Counter(reason for job_id in again for reason in _failures(client.events(job_id)))
    yield Claim(
        "each second run follows an expired lease",
        set(why) <= {Reason.LEASE_EXPIRED} and why.total() >= len(again),
        ", ".join(f"{reason} × {count}" for reason, count in why.items()) or "none",
    )


def _failures(events: tuple[JobEvent, ...]) -> list[Reason]:
    """Return why the attempts that failed did."""
    return [event.reason for event in events if event.to_status is JobStatus.FAILED]


def trouble_claims(client: Client, trouble: Trouble) -> Iterator[Claim]:
    """Check that failing jobs had all their retries, and that one failure is no end."""
    attempts = trouble.max_retries + 1
    dead = sum(_gave_up(client.get(job_id), attempts) for job_id in trouble.always)
    yield Claim(
        f"what always fails is dead-lettered after {attempts} attempts",
        dead == len(trouble.always),
        f"{dead} of {len(trouble.always)}",
    )
    well = sum(_recovered(client.get(job_id)) for job_id in trouble.once)
    yield Claim(
        "what fails once is done after a retry",
        well == len(trouble.once),
        f"{well} of {len(trouble.once)}",
    )


def _gave_up(job: Job, attempts: int) -> bool:
    exhausted = job.status is JobStatus.DEAD_LETTERED and job.reason is Reason.RETRIES_EXHAUSTED
    return exhausted and job.attempt == attempts


def _recovered(job: Job) -> bool:
    return job.status is JobStatus.DONE and job.attempt > 1
