"""What Hypothesis draws from, and the same things in the product's words."""

from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from jobqueue.domain.backoff import RetryPolicy
from jobqueue.domain.job import JobSpec
from jobqueue.domain.outcome import (
    Cancelled,
    Completed,
    Failed,
    Outcome,
    Postponed,
    Refused,
    Released,
    Unhandled,
)
from jobqueue.domain.queue import QueuePolicy
from jobqueue.domain.state import Reason
from tests.model.database import Database
from tests.model.facts import Item, Policy
from tests.model.model import HORIZON_S

QUEUES = ("a", "b", "c")
TYPES = {"able": frozenset({"t", "u", "default"}), "narrow": frozenset({"t", "a"})}
"""What the workers of the model have handlers for."""


class Ending(NamedTuple):
    """An outcome by the name of its reason, with the chance that its wait is drawn by."""

    reason: str
    delay_s: float = 0.0
    jitter: float = 0.0

    @property
    def outcome(self) -> Outcome:
        """The same for the product."""
        outcomes: dict[str, Outcome] = {
            "COMPLETED": Completed(b"done"),
            "HANDLER_FAILED": Failed("boom"),
            "TIMED_OUT": Failed("too slow", Reason.TIMED_OUT),
            "REFUSED": Refused("never"),
            "RETRY_LATER": Postponed(self.delay_s),
            "RELEASED": Released("stopped"),
            "NO_HANDLER": Unhandled("nobody"),
            "CANCELLED": Cancelled("asked"),
        }
        return outcomes[self.reason]


picks = st.integers(0, 30)
"""Which of the things there are, the newest first."""

queue_names = st.sampled_from(QUEUES)
queue_orders = st.permutations(QUEUES).flatmap(
    lambda names: st.sampled_from([3, 3, 2, 1]).map(lambda n: tuple(names[:n]))
)
workers = st.sampled_from(sorted(TYPES))
passing = st.sampled_from([1.0, 5.0, 5.0, 10.0, 10.0, 10.0, 31.0, 62.0, 300.0, 90_000.0])
endings = st.builds(
    Ending,
    st.sampled_from(
        [
            "HANDLER_FAILED",
            "COMPLETED",
            "TIMED_OUT",
            "REFUSED",
            "RETRY_LATER",
            "RELEASED",
            "NO_HANDLER",
            "CANCELLED",
        ]
    ),
    st.sampled_from([10.0, 0.0]),
    st.sampled_from([0.0, 0.5, 0.999]),
)
policies = st.builds(
    Policy,
    max_retries=st.sampled_from([3, 0, 1]),
    ttl_s=st.sampled_from([None, None, None, 100.0]),
    base_s=st.sampled_from([5.0, 0.0, 100.0]),
    cap_s=st.sampled_from([300.0, 7.0]),
    multiplier=st.sampled_from([2.0, 1.0]),
    max_running=st.sampled_from([None] * 6 + [1, 2]),
    weights=st.sampled_from([()] * 6 + [((9, 100), (5, 10))]),
)
items = st.builds(
    Item,
    queue=queue_names,
    payload=st.sampled_from([b"", b"x"]),
    type=st.sampled_from(["t", "t", "u", None]),
    priority=st.sampled_from([0, 0, 5, 9]),
    max_retries=st.sampled_from([None, None, 0, 2]),
    ttl_s=st.sampled_from([None, None, None, None, 15.0, 100.0]),
    delay_s=st.sampled_from([0.0, 0.0, 0.0, 10.0]),
)
faults = st.sampled_from([""] * 10 + ["no queue", "too far"])
dates = st.sampled_from([None, None, None, -50.0, 20.0])
operations = st.sampled_from(["cancel", "cancel running", "retry", "delete"])
administration = st.sampled_from(
    ["resume", "pause", "resume", "update", "create", "delete", "delete with all jobs"]
)
duties = st.sampled_from(["reap", "promote", "reap_unstarted", "expire", "sweep", "prune", "roll"])
keys = st.sampled_from([None, None, None, ("", "k"), ("", "l"), ("tenant", "k")])


@st.composite
def submissions(draw: st.DrawFn) -> Item:
    """Draw an item, with ``not_before`` in seconds from now; it has that or a delay."""
    item, date, key, fault = draw(items), draw(dates), draw(keys), draw(faults)
    if date is not None:
        item = replace(item, delay_s=0.0, not_before=date)
    if key is not None:
        item = replace(item, tenant=key[0], key=key[1])
    if fault == "too far":
        return replace(item, delay_s=0.0, not_before=2 * HORIZON_S)
    return replace(item, queue="nowhere") if fault else item


def spec_of(item: Item, database: Database) -> JobSpec:
    """Return a submission in the product's words."""
    not_before = None if item.not_before is None else database.instant(item.not_before)
    return JobSpec(
        item.queue,
        item.payload,
        item.type,
        item.priority,
        item.max_retries,
        item.ttl_s,
        item.delay_s or None,
        not_before,
        idempotency_key=item.key,
        tenant=item.tenant,
    )


def policy_of(policy: Policy) -> QueuePolicy:
    """Return a policy in the product's words."""
    return QueuePolicy(
        policy.max_retries,
        policy.ttl_s,
        retry_of(policy),
        dict(policy.weights),
        policy.max_running,
    )


def retry_of(policy: Policy) -> RetryPolicy:
    """Return how a queue spaces its retries in the product's words."""
    return RetryPolicy(policy.base_s, policy.cap_s, policy.multiplier)
