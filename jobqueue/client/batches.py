"""Cuts a long stream of submissions into batches that one call may carry."""

from collections.abc import Iterable, Iterator

from jobqueue.client.messages import spec_message
from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import Limits


def batches(specs: Iterable[JobSpec], limits: Limits | None = None) -> Iterator[list[JobSpec]]:
    """Yield the submissions in order, in lists for ``submit_many``; never an empty list.

    A batch stays within ``batch_jobs`` jobs and ``batch_bytes`` bytes on the wire, so payloads,
    labels and keys together. Each batch is stored as a whole or not at all; the batches are not
    one transaction.
    """
    limits = limits or Limits()
    batch: list[JobSpec] = []
    size = 0
    for spec in specs:
        more = spec_message(spec).ByteSize() + _FRAME
        if batch and (len(batch) == limits.batch_jobs or size + more > limits.batch_bytes):
            yield batch
            batch, size = [], 0
        batch.append(spec)
        size += more
    if batch:
        yield batch


_FRAME = 6
"""Tag and length of one job inside the request."""
