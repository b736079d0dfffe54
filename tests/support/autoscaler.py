"""What Kubernetes makes of a scaler's answers: KEDA between 0 and 1, the HPA from 1 on.

The arithmetic of both, with time as an argument and without their clusters. KEDA: a ScaledObject
that is active has at least one replica, one that was not active for the cooldown has none. HPA:
ceil(value / target), or for the type Value ceil(replicas × value / target); a difference of 10 % is
none; up at once, at most to the double or four more a sync; down only to the highest number that
was asked for within the stabilisation window.
"""

import math
from collections import deque
from dataclasses import dataclass

_TOLERANCE = 0.1
_UP_FACTOR, _UP_PODS = 2, 4


@dataclass(frozen=True)
class ScaledObject:
    """Its settings, with KEDA's and Kubernetes' defaults. ``by_value``: metricType Value."""

    target: float
    max_replicas: int = 100
    min_replicas: int = 0
    cooldown_s: float = 300.0
    stabilisation_s: float = 300.0
    by_value: bool = False


class Autoscaler:
    """How many replicas there are to be."""

    def __init__(self, scaled: ScaledObject) -> None:
        self._scaled = scaled
        self._active_at = -math.inf
        self._asked: deque[tuple[float, int]] = deque()
        self.replicas = scaled.min_replicas

    def heard(self, now: float, *, active: bool) -> int:
        """Take KEDA's step: from none to one, or to none when the cooldown is over."""
        scaled = self._scaled
        if active:
            self._active_at = now
            self.replicas = self.replicas or max(scaled.min_replicas, 1)
        elif not scaled.min_replicas and now >= self._active_at + scaled.cooldown_s:
            self.replicas = 0
            self._asked.clear()
        return self.replicas

    def sync(self, now: float, value: float) -> int:
        """Take the HPA's step. It does nothing while there is no replica."""
        if self.replicas:
            wanted = self._bounded(self._wanted(value))
            self._asked.append((now, wanted))
            while self._asked[0][0] < now - self._scaled.stabilisation_s:
                self._asked.popleft()
            self.replicas = self._stable(wanted)
        return self.replicas

    def _wanted(self, value: float) -> int:
        target = self._scaled.target
        share = 1 if self._scaled.by_value else self.replicas
        ratio = value / target / share
        if abs(ratio - 1.0) <= _TOLERANCE:
            return self.replicas
        return math.ceil(ratio * self.replicas)

    def _bounded(self, wanted: int) -> int:
        return min(max(wanted, self._scaled.min_replicas, 1), self._scaled.max_replicas)

    def _stable(self, wanted: int) -> int:
        if wanted >= self.replicas:
            return min(wanted, max(_UP_FACTOR * self.replicas, self.replicas + _UP_PODS))
        return min(max(number for _, number in self._asked), self.replicas)
