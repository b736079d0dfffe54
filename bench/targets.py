"""The targets of the product (requirements N-1 to N-8), judged by one run."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.figures import (
    OURS,
    Look,
    added,
    against_peers,
    highest,
    median,
    ratio,
    share_of_linear,
)
from bench.form import FULL
from bench.results import Table
from bench.workloads.batch_submit import IN_PROCESS, WAYS
from bench.workloads.claim import BIG, CALLS, CLAIM, EMPTY
from bench.workloads.event_cost import DROPPED, KEPT
from bench.workloads.held import FULL_SPEED
from bench.workloads.recovery import (
    DEAF,
    KILLED,
    LEADER_KILLED,
    LEADER_PAUSED,
    LOCK_S,
    RESTARTED,
    STOPPED,
    TICK_S,
)
from bench.workloads.scale_out import variant
from bench.workloads.single_submit import ECHO


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target, what was seen, and whether it holds; None when there is nothing to hold."""

    name: str
    target: str
    seen: str
    holds: bool | None
    sized: bool = False  # it names a size or a time that only the full form has


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on one figure of a run, or with no limit a figure that must be stated.

    ``goal`` is what is hoped for beyond it. ``sized``: it names a size that only the full form has.
    """

    name: str
    seen: Look
    least: float | None = None
    most: float | None = None
    unit: str = ""
    goal: float | None = None
    sized: bool = False

    def judge(self, tables: Sequence[Table]) -> Verdict | None:
        """Compare; None when there is nothing to compare."""
        seen = self.seen(tables)
        if seen is None:
            return None
        digits = 0 if abs(seen) >= 100 else 2  # noqa: PLR2004 - three figures will do
        said = f"{seen:,.{digits}f}{self.unit}"
        return Verdict(self.name, self._limit(), said, self._holds(seen), self.sized)

    def _limit(self) -> str:
        goal = "" if self.goal is None else f" (goal {self.goal:,g})"
        if self.least is not None:
            return f"≥ {self.least:,g}{self.unit}{goal}"
        return "stated" if self.most is None else f"≤ {self.most:,g}{self.unit}{goal}"

    def _holds(self, seen: float) -> bool | None:
        if self.least is not None:
            return seen >= self.least
        return None if self.most is None else seen <= self.most


def verdicts(tables: Sequence[Table]) -> list[Verdict]:
    """Judge every target that the run has figures for."""
    judged = (target.judge(tables) for target in TARGETS)
    return [verdict for verdict in judged if verdict is not None]


_WAL_B = 1.2 * 1024
"""A KB is 1,024 bytes, as in PostgreSQL's own units. Page images are told apart."""

_CORES_FULL_PCT = 85.0

_SUBMIT = f"{OURS}, SubmitJob"
_BATCH_100 = f"{OURS}, 1 process, batch 100"
_DIRECT = f"{OURS}, direct worker"
_SCALE, _RECOVERY = "scale-out", "recovery"
_DIRECT_COUNTS = [(n, f"{OURS}, {variant(n, 0)}") for n in FULL.scale_direct]
_ALL = variant(FULL.scale_both, FULL.scale_both)
_POOL = 10 + 3  # a server's connections with default settings, R-4.14

_SUBMITTING = (
    Target("N-1 single submit", median("single-submit", _SUBMIT, "jobs_per_s"), 1000, unit="/s"),
    Target("N-1 single submit, p99", median("single-submit", _SUBMIT, "p99"), most=150, unit=" ms"),
    Target(
        "single submit against the bare gRPC echo",
        ratio(
            median("single-submit", _SUBMIT, "jobs_per_s"),
            median("single-submit", ECHO, "jobs_per_s"),
        ),
        0.7,
        unit=" ×",
    ),
    Target(
        "N-1 batch submit through gRPC, client library included",
        median("batch-submit", f"{OURS}, {WAYS[0]}", "jobs_per_s"),
        30_000,
        unit="/s",
    ),
    Target(
        "batch submit in process",
        median("batch-submit", f"{OURS}, {IN_PROCESS}", "jobs_per_s"),
        45_000,
        unit="/s",
    ),
)
_WAITING = (
    Target("N-2 idle pick-up, p50", median("pick-up", _DIRECT, "p50"), most=5, unit=" ms"),
    Target("N-2 idle pick-up, p99", median("pick-up", _DIRECT, "p99"), most=25, unit=" ms"),
    Target("N-2 wait under load, p99", highest("steady", "p99", ours=True), most=2000, unit=" ms"),
    Target(
        "R-4.14 idle worker",
        median("pick-up", f"{OURS}, idle direct worker", "idle_queries"),
        most=1,
        unit=" queries/s",
    ),
)
_CLAIMING = (
    Target(
        f"N-3 claim of {CLAIM} among 10 million rows, 1 million ready, p95",
        median("claim", f"{OURS}, {BIG}", "p95"),
        most=10,
        unit=" ms",
        sized=True,
    ),
    Target(
        "N-3 the same against an empty system",
        ratio(
            median("claim", f"{OURS}, {BIG}", "p95"),
            median("claim", f"{OURS}, {EMPTY}", "p95"),
        ),
        most=1.2,
        unit=" ×",
        sized=True,
    ),
    Target(
        "N-3 operators' calls there, p99",
        median("claim", f"{OURS}, {CALLS}", "p99"),
        most=5000,
        unit=" ms",
        sized=True,
    ),
)
_DRAINING = (
    *(
        Target(
            f"N-4 drain against the fastest peer, {processes}",
            against_peers("drain", "jobs_per_s", processes),
            1.3,
            unit=" ×",
            goal=2,
        )
        for processes in ("1 process", "2 processes")
    ),
    Target(
        "N-4 database CPU a job, batch 100, 1 process",
        median("drain", _BATCH_100, "db_us"),
        most=70,
        unit=" µs",
        goal=55,
    ),
    Target(
        "N-4 WAL a job there: 1.2 KB of 1,024 bytes, without page images",
        median("drain", _BATCH_100, "wal_b"),
        most=_WAL_B,
        unit=" B",
    ),
)
_EVENTS = (
    Target(
        "relay, as jobs, against our fastest drain",
        ratio(
            highest("relay", "jobs_per_s", ours=True),
            highest("drain", "jobs_per_s", ours=True),
        ),
        1,
        unit=" ×",
    ),
    *(
        Target(
            f"{what} that events add to a job",
            added(
                median("event-cost", f"{OURS}, {KEPT}", value),
                median("event-cost", f"{OURS}, {DROPPED}", value),
            ),
            unit=unit,
        )
        for what, value, unit in (("database CPU", "db_us", " µs"), ("WAL", "wal_b", " B"))
    ),
)
_HELD = (
    Target(
        "N-5 loss under a held snapshot, full speed for 5 minutes",
        median("held-snapshot", f"{OURS}, {FULL_SPEED}", "loss_pct"),
        most=15,
        unit=" %",
        sized=True,
    ),
    Target(
        "N-5 loss under a held snapshot, 500/s for 30 minutes",
        median("held-snapshot", f"{OURS}, 500/s", "loss_pct"),
        most=10,
        unit=" %",
        sized=True,
    ),
)
_SCALING = (
    Target(
        "N-6 direct workers, least share of n times one worker, until the cores are full",
        share_of_linear(_SCALE, _DIRECT_COUNTS[0][1], _DIRECT_COUNTS[1:], _CORES_FULL_PCT),
        0.9,
        unit=" ×",
    ),
    Target(
        f"N-6 of {_ALL} workers at once, served",
        median(_SCALE, f"{OURS}, {_ALL}", "served"),
        2 * FULL.scale_both,
        sized=True,
    ),
    Target(
        "R-4.14 connections to PostgreSQL then: 3 a direct worker, the server's pool and 3",
        median(_SCALE, f"{OURS}, {_ALL}", "connections"),
        most=3 * FULL.scale_both + _POOL,
        sized=True,
    ),
)
_RECOVERING = (
    Target(
        "N-7 killed worker: FAILED after the end of the lease, p99",
        median(_RECOVERY, f"{OURS}, {KILLED}", "p99"),
        most=2000,
        unit=" ms",
    ),
    Target(
        "N-7 killed worker: claimed again after the delay, p99",
        median(_RECOVERY, f"{OURS}, {KILLED}", "again_p99"),
        most=1000,
        unit=" ms",
    ),
    Target(
        "N-7 clean release, p99",
        median(_RECOVERY, f"{OURS}, {STOPPED}", "p99"),
        most=1000,
        unit=" ms",
    ),
    Target(
        "N-7 database back to a claim",
        median(_RECOVERY, f"{OURS}, {RESTARTED}", "max"),
        most=5000,
        unit=" ms",
    ),
    Target(
        "N-7 pick-up 5 s after wake-ups were cut, p99",
        median(_RECOVERY, f"{OURS}, {DEAF}", "p99"),
        most=1000,
        unit=" ms",
    ),
    *(
        Target(
            f"{cell}, p99: the time of the lock and one look",
            median(_RECOVERY, f"{OURS}, {cell}", "p99"),
            most=1000 * (LOCK_S + TICK_S),
            unit=" ms",
        )
        for cell in (LEADER_KILLED, LEADER_PAUSED)
    ),
)
_MEMORY = tuple(
    Target(
        f"N-8 growth of the {program} from 100,000 to 1 million jobs",
        median("memory", OURS, f"{program}_growth"),
        most=5,
        unit=" %",
        sized=True,
    )
    for program in ("server", "worker")
)

TARGETS = (
    *_SUBMITTING,
    *_WAITING,
    *_CLAIMING,
    *_DRAINING,
    *_EVENTS,
    *_HELD,
    *_SCALING,
    *_RECOVERING,
    *_MEMORY,
)
