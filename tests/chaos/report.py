"""Tells a run in a page; of a run that failed also the whole story of the jobs at fault."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tests.chaos.checker import Violation
from tests.chaos.history import History, Tale
from tests.chaos.journal import Journal
from tests.chaos.plan import GROUPS, KINDS
from tests.chaos.run import Outcome

_MOST_SHOWN, _STORIES = 40, 5


def tell(outcome: Outcome) -> str:
    """Return what happened, what landed, what was found, and how fast things came back."""
    return "\n".join(
        [
            *_load(outcome),
            *_faults(outcome.journal),
            *(f"too few {kind}: {n}" for kind, n in outcome.short.items()),
            *(f"never happened: {name}" for name in outcome.absent),
            "programs ended: " + _listed(outcome.ends),
            "errors logged: " + _listed(outcome.errors),
            *_starts(outcome),
            *_recovery(outcome),
            *([] if outcome.quiet else ["I16: it did not come to rest"]),
            *(f"I16: {name} does nothing" for name in outcome.idle),
            *(f"did not follow: {what}" for what in outcome.journal.unmet),
            *(f"may not end so: {end}, {n} times" for end, n in outcome.crashed.items()),
            *(f"may not be logged: {text}, {n} times" for text, n in outcome.unexpected.items()),
            f"violations: {len(outcome.violations)}",
            *map(str, outcome.violations[:_MOST_SHOWN]),
            *_stories(outcome.history, outcome.violations),
        ]
    )


def _load(outcome: Outcome) -> Iterator[str]:
    history, load = outcome.history, outcome.load
    ends = Counter(row.status for row in history.rows)
    yield f"{len(history.rows)} jobs, {len(history.events)} events in {outcome.seconds:.0f} s"
    yield f"at the end {_listed(ends)}"
    yield f"moves: {_listed(history.reasons)}"
    yield f"calls: {len(load.calls)}, {load.unanswered} jobs without an answer"
    yield f"{load.repeats} repeats of a key, {load.doubted} of them of one without an answer"
    yield f"{load.operators} cancels and retries"


def _faults(journal: Journal) -> Iterator[str]:
    """List what landed by class, and by name what did not."""
    for group, kinds in GROUPS.items():
        landed = {n: c for n, c in journal.landed.items() if n.split(":")[0] in kinds}
        yield f"{group}, {sum(landed.values())}: {_listed(landed)}"
    yield f"{journal.long_pauses} pauses were longer than a lease"
    yield f"{journal.struck_at_work} workers were killed while they held leases"
    yield f"after one SIGTERM {journal.orderly_ends} ended with 0, {journal.hurried_ends} with 1"
    yield "tried again: " + _listed(journal.again)
    yield "missed: " + _listed(journal.missed)
    yield ", ".join(f"{journal.count(*kinds)} {kind}" for kind, kinds in KINDS.items())


def _starts(outcome: Outcome) -> Iterator[str]:
    """Tell of starts after the first of a life. Rule I4 finds those whose cause allows none."""
    causes: Counter[str] = Counter()
    for tale in outcome.history.by_job().values():
        for life in tale.lives():
            held = [each for each in replace(tale, events=life).leases() if each.start]
            causes.update(each.end.reason for each in held[:-1] if each.end)
    lost, kills = causes["LEASE_EXPIRED"], outcome.journal.count(*KINDS["kills"])
    share = 1_000 * lost / max(kills, 1)
    yield f"started again after: {_listed(causes)}"
    yield f"duplicate starts, each after LEASE_EXPIRED: {lost}, {share:.0f} per 1,000 kills"


def _recovery(outcome: Outcome) -> Iterator[str]:
    events = sorted(outcome.history.events, key=lambda event: event.at)
    expired = [e for e in events if e.reason == "LEASE_EXPIRED" and e.to_status == "FAILED"]
    # Each start has a name of its own.
    killed: dict[str | None, float] = {worker: at for at, worker in outcome.journal.killed}
    crashes = [e.at - killed[e.worker] for e in expired if killed.get(e.worker, e.at) < e.at]
    claims = [event.at for event in events if event.to_status == "ASSIGNED"]
    following = [(at, bisect_right(claims, at)) for at in outcome.journal.back]
    yield f"crash to FAILED: {_spread(crashes)}"
    back = [claims[place] - at for at, place in following if place < len(claims)]
    yield f"database back to claiming: {_spread(back)}"
    yield f"leader killed to the next one: {_spread(outcome.journal.led_again_s)}"


def _stories(history: History, violations: Sequence[Violation]) -> Iterator[str]:
    """Tell all that is known of the first jobs at fault: of this run nothing else is kept."""
    tales = history.by_job()
    jobs = dict.fromkeys(v.job for v in violations if v.job in tales)
    for job in list(jobs)[:_STORIES]:
        yield from _story(tales[job])


def _story(tale: Tale) -> Iterator[str]:
    yield f"--- {tale.job}"
    yield str(tale.row)
    yield from (f"  {event}" for event in tale.events)
    yield from (f"  {run}" for run in tale.runs)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items())) or "none"


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"p50 {ordered[len(ordered) // 2]:.2f} s, p99 {p99:.2f} s, {len(ordered)} times"
