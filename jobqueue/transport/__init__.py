"""How callers reach the server: where to and as whom, and what a failed call means.

The same for everything that calls: both clients and remote workers.
"""

from jobqueue.transport.faults import translate
from jobqueue.transport.route import (
    DEFAULT_ADDRESS,
    DEFAULT_TIMEOUT_S,
    Route,
    Tls,
    channel_options,
    check_timeout,
    credentials,
)
from jobqueue.transport.ways import Way, Ways, closed_meanwhile

__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_TIMEOUT_S",
    "Route",
    "Tls",
    "Way",
    "Ways",
    "channel_options",
    "check_timeout",
    "closed_meanwhile",
    "credentials",
    "translate",
]
