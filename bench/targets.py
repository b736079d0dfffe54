"""The targets of the product (requirements N-1 to N-8), judged by one run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.results import Cell, Table
from bench.workloads.claim import BIG, CALLS, CLAIM, EMPTY
from bench.workloads.held import FULL_SPEED
from bench.workloads.recovery import DEAF, KILLED, RESTARTED, STOPPED
from bench.workloads.single_submit import ECHO

OURS = "jobqueue"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target, what was seen, and whether it holds."""

    name: str
    target: str
    seen: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on one figure of a run. ``seen`` returns None when the run has no such figure."""

    name: str
    seen: Callable[[Sequence[Table]], float | None]
    least: float | None = None
    most: float | None = None
    unit: str = ""

    def judge(self, tables: Sequence[Table]) -> Verdict | None:
        """Compare; None when there is nothing to compare."""
        seen = self.seen(tables)
        if seen is None:
            return None
        if self.least is not None:
            return self._verdict("≥", self.least, seen, holds=seen >= self.least)
        assert self.most is not None
        return self._verdict("≤", self.most, seen, holds=seen <= self.most)

    def _verdict(self, sign: str, limit: float, seen: float, *, holds: bool) -> Verdict:
        digits = 0 if seen >= 100 else 2  # noqa: PLR2004 - three figures will do
        said = f"{seen:,.{digits}f}{self.unit}"
        return Verdict(self.name, f"{sign} {limit:,g}{self.unit}", said, holds)


def verdicts(tables: Sequence[Table]) -> list[Verdict]:
    """Judge every target that the run has figures for."""
    judged = (target.judge(tables) for target in TARGETS)
    return [verdict for verdict in judged if verdict is not None]


def median(table: str, label: str, value: str) -> Callable[[Sequence[Table]], float | None]:
    """Look up the median of a value of one cell."""

    def look(tables: Sequence[Table]) -> float | None:
        cell = next((c for c in _cells(tables, table) if c.label == label), None)
        return _median(cell, value)

    return look


def ratio(
    above: Callable[[Sequence[Table]], float | None],
    below: Callable[[Sequence[Table]], float | None],
) -> Callable[[Sequence[Table]], float | None]:
    """Divide two figures of one run."""

    def look(tables: Sequence[Table]) -> float | None:
        one, other = above(tables), below(tables)
        return one / other if one is not None and other else None

    return look


def highest(
    table: str, value: str, variant: str, *, ours: bool
) -> Callable[[Sequence[Table]], float | None]:
    """Look up the highest median among our cells or the peers', whose variant begins so."""

    def look(tables: Sequence[Table]) -> float | None:
        cells = (c for c in _cells(tables, table) if c.variant.startswith(variant))
        found = (_median(c, value) for c in cells if (c.system == OURS) is ours)
        return max((rate for rate in found if rate is not None), default=None)

    return look


def _cells(tables: Sequence[Table], table: str) -> list[Cell]:
    return [cell for found in tables if found.name == table for cell in found.cells]


def _median(cell: Cell | None, value: str) -> float | None:
    spread = cell.spread(value) if cell is not None else None
    return None if spread is None else spread.median


def _drain(variant: str) -> Callable[[Sequence[Table]], float | None]:
    return ratio(
        highest("drain", "jobs_per_s", variant, ours=True),
        highest("drain", "jobs_per_s", variant, ours=False),
    )


_SUBMIT = f"{OURS}, SubmitJob"
_BATCH_100 = f"{OURS}, 1 process, batch 100"
_DIRECT = f"{OURS}, direct worker"
_SCALE, _RECOVERY = "scale-out", "recovery"

TARGETS = (
    Target("N-1 single submit", median("single-submit", _SUBMIT, "jobs_per_s"), 1000, unit="/s"),
    Target("N-1 single submit, p99", median("single-submit", _SUBMIT, "p99"), most=150, unit=" ms"),
    Target(
        "single submit against the echo",
        ratio(
            median("single-submit", _SUBMIT, "jobs_per_s"),
            median("single-submit", ECHO, "jobs_per_s"),
        ),
        0.7,
        unit=" ×",
    ),
    Target(
        "N-1 batch submit through gRPC",
        highest("batch-submit", "jobs_per_s", "gRPC", ours=True),
        30_000,
        unit="/s",
    ),
    Target(
        "batch submit in process",
        highest("batch-submit", "jobs_per_s", "in process", ours=True),
        45_000,
        unit="/s",
    ),
    Target("N-4 drain against the fastest peer, 1 process", _drain("1 process"), 1.3, unit=" ×"),
    Target(
        "N-4 drain against the fastest peer, 2 processes", _drain("2 processes"), 1.3, unit=" ×"
    ),
    Target("N-4 database CPU a job", median("drain", _BATCH_100, "db_us"), most=70, unit=" µs"),
    Target("N-4 WAL a job", median("drain", _BATCH_100, "wal_b"), most=1200, unit=" B"),
    Target("N-2 idle pick-up, p50", median("pick-up", _DIRECT, "p50"), most=5, unit=" ms"),
    Target("N-2 idle pick-up, p99", median("pick-up", _DIRECT, "p99"), most=25, unit=" ms"),
    Target(
        "N-2 wait under load, p99", highest("steady", "p99", "", ours=True), most=2000, unit=" ms"
    ),
    Target(
        "R-4.14 idle worker",
        median("pick-up", f"{OURS}, idle direct worker", "idle_queries"),
        most=1,
        unit=" queries/s",
    ),
    Target(
        f"N-3 claim of {CLAIM} in a full system, p95",
        median("claim", f"{OURS}, {BIG}", "p95"),
        most=10,
        unit=" ms",
    ),
    Target(
        "N-3 the same against an empty system",
        ratio(
            median("claim", f"{OURS}, {BIG}", "p95"),
            median("claim", f"{OURS}, {EMPTY}", "p95"),
        ),
        most=1.2,
        unit=" ×",
    ),
    Target(
        "N-3 operators' calls there, p99",
        median("claim", f"{OURS}, {CALLS}", "p99"),
        most=5000,
        unit=" ms",
    ),
    Target(
        "N-5 loss under a held snapshot, full speed",
        median("held-snapshot", f"{OURS}, {FULL_SPEED}", "loss_pct"),
        most=15,
        unit=" %",
    ),
    Target(
        "N-5 loss under a held snapshot, 500/s",
        median("held-snapshot", f"{OURS}, 500/s", "loss_pct"),
        most=10,
        unit=" %",
    ),
    Target(
        "N-6 two workers against one",
        ratio(
            median(_SCALE, f"{OURS}, 2 direct", "jobs_per_s"),
            median(_SCALE, f"{OURS}, 1 direct", "jobs_per_s"),
        ),
        1.8,
        unit=" ×",
    ),
    Target(
        "N-6 of 100 direct workers, served",
        median(_SCALE, f"{OURS}, 100 direct", "served"),
        100,
    ),
    Target(
        "N-6 of 100 remote workers, served",
        median(_SCALE, f"{OURS}, 100 remote", "served"),
        100,
    ),
    Target(
        "relay against the fastest drain",
        ratio(
            highest("relay", "jobs_per_s", "", ours=True),
            highest("drain", "jobs_per_s", "", ours=True),
        ),
        1,
        unit=" ×",
    ),
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
        "N-7 pick-up after wake-ups were cut, p99",
        median(_RECOVERY, f"{OURS}, {DEAF}", "p99"),
        most=1000,
        unit=" ms",
    ),
    Target("N-8 growth of the server", median("memory", OURS, "server_growth"), most=5, unit=" %"),
    Target("N-8 growth of the worker", median("memory", OURS, "worker_growth"), most=5, unit=" %"),
)
