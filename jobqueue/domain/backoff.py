"""How long a failed job waits before it may run again (R-3.8)."""

import math
from dataclasses import dataclass

JITTER = 0.2
"""A delay grows by a uniform share of itself in [0, JITTER]."""

MAX_DELAY_S = 10 * 365 * 86_400.0
"""No delay anywhere is longer than ten years (R-9.4)."""


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
    at most 1.2 × the smaller of the policy's maximum and ten years.
    """
    delay = min(_grown(policy, max(retry_count, 0)), _clamp(policy.max_delay_s))
    return delay * (1 + JITTER * min(max(jitter, 0.0), 1.0))


def _grown(policy: RetryPolicy, retry_count: int) -> float:
    base, multiplier = _clamp(policy.base_delay_s), max(policy.multiplier, 1.0)
    if base == 0.0 or multiplier == 1.0:
        return base
    # The exponent is clamped before it is raised: beyond this the delay is over every maximum.
    limit = max(math.log(MAX_DELAY_S / base, multiplier), 0.0) + 1
    return _clamp(base * multiplier ** min(retry_count, limit))


def _clamp(seconds: float) -> float:
    if math.isnan(seconds):
        return MAX_DELAY_S
    return min(max(seconds, 0.0), MAX_DELAY_S)
