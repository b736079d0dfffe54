"""The policy of a queue as keyword arguments: what is said is set, None clears it."""

from collections.abc import Mapping
from typing import TypedDict

from google.protobuf.field_mask_pb2 import FieldMask

from jobqueue.client.messages import duration
from jobqueue.v1 import admin_service_pb2 as admin


class PolicyFields(TypedDict, total=False):
    """What can be set on a queue. Durations are seconds.

    ``ttl_s`` None: no TTL. ``max_running`` None: no limit. ``priority_weights`` maps priorities
    (0 to 9) to positive shares of the claims; empty or None: strict order.
    """

    max_retries: int | None
    ttl_s: float | None
    base_delay_s: float | None
    max_delay_s: float | None
    priority_weights: Mapping[int, int] | None
    max_running: int | None


WIRE_NAMES = {
    "max_retries": "max_retries",
    "ttl_s": "ttl",
    "base_delay_s": "base_delay",
    "max_delay_s": "max_delay",
    "priority_weights": "priority_weights",
    "max_running": "max_running",
}
"""Keyword to field of the message."""


def policy_message(fields: PolicyFields) -> admin.QueuePolicy:
    """Return the fields that have a value as a message."""
    return admin.QueuePolicy(
        max_retries=fields.get("max_retries"),
        ttl=duration(fields.get("ttl_s")),
        base_delay=duration(fields.get("base_delay_s")),
        max_delay=duration(fields.get("max_delay_s")),
        priority_weights=fields.get("priority_weights") or {},
        max_running=fields.get("max_running"),
    )


def policy_mask(fields: PolicyFields) -> FieldMask:
    """Return which fields were said, in wire names. Raises TypeError for an unknown one."""
    unknown = fields.keys() - WIRE_NAMES.keys()
    if unknown:
        raise TypeError(f"a queue has no {', '.join(sorted(unknown))}")
    return FieldMask(paths=sorted(WIRE_NAMES[name] for name in fields))
