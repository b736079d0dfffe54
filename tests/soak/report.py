"""Tells a soak in a page."""

from collections.abc import Mapping

from tests.soak.judge import Verdict
from tests.soak.run import Outcome

_MOST_SHOWN = 20
_EXACT = 100


def tell(outcome: Outcome) -> str:
    """Return what was done, and a line for each measure."""
    visitors = outcome.visitors
    lines = [
        f"{outcome.jobs} jobs in {outcome.seconds:.0f} s, started: {_listed(outcome.starts)}",
        f"visits: {_listed(visitors.done)}; broken off: {_listed(visitors.failed)}",
        f"operators: {outcome.load.operators}, repeats of a key: {outcome.load.repeats}",
        f"cuts: {_listed(outcome.journal.landed)}; missed: {_listed(outcome.journal.missed)}",
        f"programs that ended: {', '.join(outcome.ended) or 'none'}",
        f"leases that ran out: {outcome.lost}",
        "",
        table(outcome.verdicts),
        f"violations: {len(outcome.violations)}",
        *map(str, outcome.violations[:_MOST_SHOWN]),
        f"grown: {', '.join(' '.join(v.place) for v in outcome.grown) or 'nothing'}",
    ]
    return "\n".join(lines)


def table(verdicts: list[Verdict]) -> str:
    """Return a table of Markdown."""
    head = ("of", "what", "early", "late", "flat up to", "")
    rows = [head, ("---", "---", "---:", "---:", "---:", "---"), *map(_row, verdicts)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(verdict: Verdict) -> tuple[str, ...]:
    bound = verdict.bound
    figures = (verdict.early, verdict.late, bound.most(verdict.early))
    of, what = verdict.place
    named = f"{what}, {bound.unit}" if bound.unit else what
    return (of, named, *map(_figure, figures), "GROWS" if verdict.grows else "flat")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= _EXACT or value == int(value) else f"{value:.2f}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items())) or "none"
