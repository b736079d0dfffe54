"""What makes two submissions under one idempotency key "the same content" (R-3.3)."""

import hashlib
import json
from datetime import UTC
from uuid import UUID

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


def derived_job_id(request_id: str, index: int) -> UUID:
    """Return the job id of item ``index`` of a request that named itself.

    The same request always gives the same ids, so a repeated call finds its own jobs instead of
    making new ones. The id has the form of a UUID v4; its 122 bits come from SHA-256, as
    unpredictable as the request id is.
    """
    digest = hashlib.sha256(f"{index}:{request_id}".encode()).digest()
    return UUID(bytes=digest[:16], version=4)
