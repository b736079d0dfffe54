"""How long a lease lasts, and how long its holder believes in it. All values are seconds."""

from dataclasses import dataclass

BUSY_RETRY_S = 1.0
"""A lease whose row somebody holds is asked for again after this, or half a short interval."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """The time constants of one worker. ``renew_interval_s`` is at most a third of ``lease_s``."""

    lease_s: float = 30.0
    renew_interval_s: float = 10.0
    heartbeat_interval_s: float = 5.0
    stall_limit_s: float = 300.0
    connect_timeout_s: float = 3.0
    pgbouncer: bool = False

    @property
    def statement_timeout_s(self) -> float:
        """No statement of a worker may take longer: one that hangs must not cost a lease.

        Nor, where leases are long, the worker: a turn of its claims is a few statements, some tried
        three times, and one that takes the stall limit has it killed.
        """
        return min(self.lease_s / 4, self.stall_limit_s / 8)

    @property
    def margin_s(self) -> float:
        """How much sooner than the database a worker stops to believe in a lease."""
        return self.lease_s / 10

    def trusted_until(self, sent_at: float) -> float:
        """Return the end of trust in a lease that a statement sent at ``sent_at`` gave us.

        The database counts from when it ran the statement, which is never before it was sent.
        """
        return sent_at + self.lease_s - self.margin_s
