"""Which accidents there are, how often each happens in a round, and what that is to prove."""

import random
from collections import Counter
from collections.abc import Mapping

from tests.chaos.network import Weather

FROM_ONE_SERVER = frozenset(
    {
        "promote_jobs",
        "expire_jobs",
        "lock_expired_leases",
        "settle_leases/open",
        "read_event_window",
        "move_event_cursor",
        "start_leases",
    }
)
"""What one server does for all, and what it does for remote workers, who may all be with the other
one. Only the reaper settles within a transaction that goes on."""

REAPING = frozenset({"lock_expired_leases", "settle_leases/open"})
"""Of these, what happens only to leases that are over."""

AT_SERVERS = FROM_ONE_SERVER | {"submit_jobs", "cancel_job", "retry_job"}
"""What workers on the database do not send."""

_STEPS = (
    "submit_jobs",
    "start_leases",
    "renew_leases",
    "complete_leases",
    "settle_leases",
    "read_event_window",
    "move_event_cursor",
)
"""What is sent only when there is something to do."""

_LOOKS: Mapping[str, str] = {
    "claim_jobs": "rows",
    "promote_jobs": "rows",
    "expire_jobs": "rows",
    "cancel_job": "CANCELLED",
    "retry_job": "RETRIED",
}
"""What may find nothing to do, and what its answer has when it did."""

_MOMENTS = ("before", "after")
SEAMS = (
    *(f"seam:{step}/{moment}=kill@2" for step in _STEPS for moment in _MOMENTS),
    *(f"seam:{step}/{at}[{found}]=kill" for step, found in _LOOKS.items() for at in _MOMENTS),
    "seam:lock_expired_leases/open[rows]=kill",
    "seam:settle_leases/open[rows]=kill",
    "seam:lock_expired_leases/after[rows]=kill",
    "seam_stop:lock_expired_leases/open[rows]=stop",
    "seam_cut:submit_jobs/after=cut@2",
    "seam_cut:claim_jobs/after=cut@2",
    "seam_cut:complete_leases/after=cut@2",
    "seam_cut:settle_leases/after=cut@2",
)
"""Every step of a job, before and after its commit; but for those that come too seldom in a round:
the end of a job that was never started in time, and that of all jobs of a deleted queue.

The reaper takes leases back by two statements: it ends after each, and after the commit of both. It
also stops after the first, and goes on when others may have the same jobs.
"""

WEATHERS = tuple(weather.value for weather in Weather if weather is not Weather.FAIR)

SHARES: Mapping[str, int] = {
    "kill:worker": 24,
    "kill:remote": 12,
    "kill:server": 6,
    "kill_keeper:worker": 3,
    "kill_keeper:remote": 2,
    "kill_leader:reaper": 1,
    "kill_leader:scheduler": 1,
    "pause:worker": 14,
    "pause:remote": 7,
    "pause:server": 6,
    "pause_leader:reaper": 1,
    "pause_leader:scheduler": 1,
    "term:worker": 2,
    "term:remote": 1,
    "term:server": 2,
    "term_twice:worker": 2,
    "term_twice:server": 1,
    "term_kill:worker": 2,
    "term_kill:remote": 1,
    "cut:all": 5,
    "cut:jq-server": 2,
    "cut:jq-server-listener": 2,
    "cut:jq-worker": 2,
    "cut:jq-settler": 2,
    "cut:jq-keeper": 2,
    "cancel:running": 1,
    "cancel:waiting": 2,
    "lock:leases": 1,
    "lock:ready": 1,
    "long_read": 1,
    "crash": 2,
    "restart:fast": 1,
    "restart:immediate": 1,
    "read_only": 1,
    "no_connections": 1,
    "redis:flush": 1,
    "redis:restart": 1,
    "redis:hang": 1,
    **dict.fromkeys((f"redis:{weather}" for weather in WEATHERS), 1),
    **dict.fromkeys((f"kafka:{weather}" for weather in WEATHERS), 1),
    **dict.fromkeys(
        (f"net:{link}/{weather}" for link in ("worker", "server", "grpc") for weather in WEATHERS),
        1,
    ),
}
"""How often each happens in one round, which is what the gate asks for."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "F1 SIGKILL": ("kill", "kill_keeper", "kill_leader"),
    "F2 accident at a seam": ("seam", "seam_cut", "seam_stop"),
    "F3 SIGSTOP": ("pause", "pause_leader"),
    "F4 SIGTERM": ("term", "term_twice", "term_kill"),
    "F5 sessions terminated": ("cut",),
    "F6 PostgreSQL gone or refusing": ("restart", "crash", "read_only", "no_connections"),
    "F7 network": ("net",),
    "F8 statements cancelled": ("cancel",),
    "F10 Redis": ("redis",),
    "F11 Kafka": ("kafka",),
    "F12 table lock, long transaction": ("lock", "long_read"),
}
"""The classes of faults, and the kinds of accidents of each."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "kills": ("kill", "kill_keeper", "kill_leader", "term_kill", "seam"),
    "pauses": ("pause", "pause_leader"),
    "cuts of the database": ("cut", "seam_cut", "restart", "crash", "no_connections", "read_only"),
}
LEAST: Mapping[str, int] = {"kills": 50, "pauses": 20, "cuts of the database": 10}
"""What must land in one round; an accident that nobody had is none."""


def step_of(name: str) -> tuple[str, str]:
    """Return where an accident at a seam happens: the statement, and ``statement/moment``."""
    place = name.partition(":")[2].partition("=")[0].partition("[")[0]
    return place.partition("/")[0], place


def strikes_servers(name: str) -> bool:
    """Tell whether an accident has a server for a victim, of which there are few."""
    kind, _, what = name.partition(":")
    return what == "server" or kind.endswith("_leader") or not AT_SERVERS.isdisjoint(step_of(name))


def plan(rng: random.Random, rounds: float) -> list[str]:
    """Return what is to happen, the first at the end, in a random order.

    It begins with what a round has once: where time does not suffice, it is for repeats.
    """
    shares = {**SHARES, **dict.fromkeys(SEAMS, 1)}
    once = [name for name, share in shares.items() if share == 1]
    names = [name for name, share in shares.items() for _ in range(round(share * rounds) or 1)]
    again = list((Counter(names) - Counter(once)).elements())
    rng.shuffle(once)
    rng.shuffle(again)
    return again + once
