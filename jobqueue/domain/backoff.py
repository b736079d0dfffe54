"""How long a failed job waits before it may run again (R-3.8)."""

import math
from dataclasses import dataclass

JITTER = 0.2
"""A delay grows by a uniform share of itself in [0, JITTER]."""

MAX_DELAY_S = 10 * 365 * 86_400.0
"""No delay anywhere is longer than ten years (R-9.4)."""

_CLOCK_TICK_S = 1e-6  # PostgreSQL's clock knows nothing shorter


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The backoff of a queue: seconds, seconds, and a factor of at least 1."""

    base_delay_s: float = 5.0
    max_delay_s: float = 300.0
    multiplier: float = 2.0


def retry_delay(policy: RetryPolicy, retry_count: int, jitter: float) -> float:
    """Return the seconds to wait before retry number ``retry_count + 1``.

    ``min(base · multiplier^retry_count, max)`` plus ``jitter`` (0 ≤ jitter < 1, drawn by the
    caller) times 20 % of it. Total for every input: the result is finite, never negative, and
    at most 1.2 × the smaller of the policy's maximum and ten years. A base below a microsecond
    is no delay, a multiplier below 1 (or NaN) is 1.
    """
    delay = min(_grown(policy, max(retry_count, 0)), bounded_delay(policy.max_delay_s))
    # The constant comes first in max(): with NaN second, it is the constant that stays.
    return delay * (1 + JITTER * min(max(0.0, jitter), 1.0))


def bounded_delay(seconds: float) -> float:
    """Return ``seconds`` within 0 and ten years; NaN, which says nothing, is the longest."""
    if math.isnan(seconds):
        return MAX_DELAY_S
    return min(max(seconds, 0.0), MAX_DELAY_S)


def _grown(policy: RetryPolicy, retry_count: int) -> float:
    base, multiplier = bounded_delay(policy.base_delay_s), max(1.0, policy.multiplier)
    if base < _CLOCK_TICK_S:
        return 0.0
    if multiplier == 1.0:
        return base
    # The exponent is compared before it is raised: above this one the delay is over any maximum,
    # and the power might not fit a float.
    if retry_count > math.log(MAX_DELAY_S / base) / math.log(multiplier):
        return MAX_DELAY_S
    return bounded_delay(base * multiplier**retry_count)
