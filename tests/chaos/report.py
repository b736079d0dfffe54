"""Tells a run in a page."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tests.chaos.run import KINDS, Outcome

_MOST_SHOWN = 40


def tell(outcome: Outcome) -> str:
    """Return what happened, what landed, what was found, and how fast things came back."""
    history, journal, load = outcome.history, outcome.journal, outcome.load
    moves = Counter(event.to_status for event in history.events)
    ends = Counter(row.status for row in history.rows)
    lines = [
        f"{len(history.rows)} jobs, {len(history.events)} events in {outcome.seconds:.0f} s",
        f"{moves['RUNNING']} starts; at the end {_listed(ends)}",
        f"calls: {len(load.calls)}, {load.unanswered} jobs without an answer",
        f"{load.repeats} repeats of a key, {load.operators} cancels and retries",
        "landed: " + _listed(journal.landed),
        "missed: " + _listed(journal.missed),
        ", ".join(f"{journal.count(*names)} {kind}" for kind, names in KINDS.items()),
        f"{journal.long_pauses} pauses were longer than a lease",
        *(f"too few {kind}: {n}" for kind, n in outcome.short.items()),
        "programs ended: " + _listed(outcome.ends),
        "second starts: " + _listed(_causes(outcome)),
        *_recovery(outcome),
        f"violations: {len(outcome.violations)}",
        *map(str, outcome.violations[:_MOST_SHOWN]),
    ]
    return "\n".join(lines)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items())) or "none"


def _causes(outcome: Outcome) -> Counter[str]:
    """Why jobs were started again: by what ended the attempt before."""
    causes: Counter[str] = Counter()
    for tale in outcome.history.by_job().values():
        held = [each for each in tale.leases() if each.start]
        causes.update(each.end.reason for each in held[:-1] if each.end)
    return causes


def _recovery(outcome: Outcome) -> list[str]:
    events = sorted(outcome.history.events, key=lambda event: event.at)
    crashes = [
        event.at - at
        for at, worker in outcome.journal.killed
        for event in events
        if event.reason == "LEASE_EXPIRED"
        and event.to_status == "FAILED"
        and event.at > at
        and event.worker == worker
    ]
    claims = [event.at for event in events if event.to_status == "ASSIGNED"]
    back = [_first_after(claims, at) - at for at in outcome.journal.back]
    return [
        f"crash to FAILED: {_spread(crashes)}",
        f"database back to claiming: {_spread([each for each in back if each < 1e9])}",
    ]


def _first_after(times: Iterable[float], at: float) -> float:
    return next((each for each in times if each > at), float("inf"))


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"p50 {ordered[len(ordered) // 2]:.2f} s, p99 {p99:.2f} s, {len(ordered)} times"
