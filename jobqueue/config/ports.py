"""The ports that each program opens, and which they are unless somebody says otherwise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ports:
    """``keys``: what a program listens on; ``defaults``: where that is not the model's."""

    keys: Sequence[str]
    defaults: Mapping[str, int] = field(default_factory=dict)


SERVER_PORTS = Ports(("grpc.port", "scaler.port", "metrics.port", "health.port"))

WORKER_PORTS = Ports(("metrics.port", "health.port"), {"metrics.port": 9091, "health.port": 8081})
"""A server on the same machine has the defaults."""
