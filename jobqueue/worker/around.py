"""What surrounds each attempt, for those who follow it from outside: a trace, for example.

The worker room knows no vendor. Whoever builds a worker may give it something that is entered
before the handler starts and left after its outcome was handed over to be settled, in the same
context, so that context variables set there are seen by the handler and by that call.
"""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Outcome

_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class Trail(Protocol):
    """One attempt as it is followed."""

    carrier: Mapping[str, str]
    """The W3C trace context for what runs in another process; may hold other keys."""

    def ended(self, outcome: Outcome | None) -> None:
        """The handler is over. None: there is nothing to report, the lease is lost."""


class Around(Protocol):
    """Makes a trail for an attempt. Entering and leaving must be quick and raise nothing."""

    def __call__(self, job: LeasedJob) -> AbstractContextManager[Trail]:
        """Return what the attempt runs in."""


def trace_variables(carrier: Mapping[str, str]) -> dict[str, str]:
    """Return a trace context as environment variables of a program; empty when there is none."""
    return {
        name.upper(): carrier[name] for name in ("traceparent", "tracestate") if name in carrier
    }


def trace_names(carrier: Mapping[str, str]) -> dict[str, str]:
    """Return trace and span as lines of the log name them; empty when there is no such context."""
    parts = _PARENT.fullmatch(carrier.get("traceparent", ""))
    return {"trace_id": parts[1], "span_id": parts[2]} if parts else {}
