"""What makes two submissions under one idempotency key "the same content" (R-3.3)."""

import hashlib
import json
import os
from datetime import UTC

from jobqueue.domain.job import JobSpec

_VERSION = 1


def content_hash(spec: JobSpec) -> bytes:
    """Return a SHA-256 over the content fields as sent, in a versioned canonical form.

    Content is queue, type, payload, priority, max_retries, ttl, timeout, and delay or
    not_before. Labels, tenant and trace context are not.
    """
    not_before = spec.not_before.astimezone(UTC).isoformat() if spec.not_before else None
    fields = [
        _VERSION,
        spec.queue,
        spec.type,
        spec.priority,
        spec.max_retries,
        _seconds(spec.ttl_s),
        _seconds(spec.timeout_s),
        _seconds(spec.delay_s),
        not_before,
    ]
    head = json.dumps(fields, separators=(",", ":"), ensure_ascii=True).encode()
    return hashlib.sha256(len(head).to_bytes(8, "big") + head + spec.payload).digest()


def _seconds(value: float | None) -> float | None:
    """5 and 5.0 are the same time, but not the same JSON."""
    return None if value is None else float(value)


def derived_job_ids(request_id: str, count: int) -> bytes:
    """Return the job ids of a request that named itself, 16 bytes for each item.

    The same request always gives the same ids, so a repeated call finds its own jobs instead of
    making new ones. They come from SHAKE-256, as unpredictable as the request id is; how many are
    asked for changes none of them.
    """
    return _as_v4(hashlib.shake_256(request_id.encode()).digest(_ID_BYTES * count))


def random_job_ids(count: int) -> bytes:
    """Return job ids for a request that has no name, 16 bytes for each item."""
    return _as_v4(os.urandom(_ID_BYTES * count))


def _as_v4(raw: bytes) -> bytes:
    """Return ids in the form of UUIDs v4, which leaves 122 bits of each as they are."""
    ids = bytearray(raw)
    ids[6::_ID_BYTES] = ids[6::_ID_BYTES].translate(_WITH_VERSION)
    ids[8::_ID_BYTES] = ids[8::_ID_BYTES].translate(_WITH_VARIANT)
    return bytes(ids)


_ID_BYTES = 16
_WITH_VERSION = bytes(byte & 0x0F | 0x40 for byte in range(256))
_WITH_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))
