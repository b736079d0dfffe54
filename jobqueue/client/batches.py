"""Cuts a long stream of submissions into batches that one call may carry."""

from collections.abc import Iterable, Iterator

from jobqueue.client.messages import spec_message
from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import Limits, check, spec_faults


def batches(specs: Iterable[JobSpec], limits: Limits | None = None) -> Iterator[list[JobSpec]]:
    """Yield the submissions in order, in lists for ``submit_many``; never an empty list.

    A batch stays within ``batch_jobs`` jobs and ``batch_bytes`` bytes on the wire, so payloads,
    labels and keys together. Each batch is stored as a whole or not at all; the batches are not
    one transaction. Raises InvalidArgument for what cannot be sent, named by its place among all:
    ``jobs[3].delay``.
    """
    limits = limits or Limits()
    batch: list[JobSpec] = []
    size = 0
    for place, spec in enumerate(specs):
        more = _size(spec, f"jobs[{place}]", limits)
        if batch and (len(batch) == limits.batch_jobs or size + more > limits.batch_bytes):
            yield batch
            batch, size = [], 0
        batch.append(spec)
        size += more
    if batch:
        yield batch


def _size(spec: JobSpec, at: str, limits: Limits) -> int:
    try:
        return spec_message(spec).ByteSize() + _FRAME
    except (ValueError, OverflowError, TypeError):
        check(spec_faults(spec, limits, at))  # not before: submit_many looks at good ones faster
        raise


_FRAME = 6
"""Tag and length of one job inside the request."""
