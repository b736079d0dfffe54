"""What an expression of Prometheus asks for: metrics, labels, values."""

import re
from dataclasses import dataclass

import promql_parser
from promql_parser import (
    AggregateExpr,
    BinaryExpr,
    Expr,
    Matcher,
    MatchOp,
    MatrixSelector,
    VectorSelector,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One selector of an expression.

    ``patterns`` are what its matchers say of a label's values, each alternative by itself.
    """

    metric: str
    labels: frozenset[str]
    patterns: frozenset[tuple[str, str]]


def asked(expr: str) -> list[Asked]:
    """Return the selectors of an expression. Raises ValueError when it is none."""
    return [_asked(part) for part in _parts(expr) if isinstance(part, VectorSelector)]


def grouped(expr: str) -> set[str]:
    """Return the labels by which an expression groups or matches."""
    labels: set[str] = set()
    for part in _parts(expr):
        if isinstance(part, AggregateExpr) and part.modifier:
            labels.update(part.modifier.labels)
        if isinstance(part, BinaryExpr) and part.modifier and part.modifier.matching:
            labels.update(part.modifier.matching.labels)
    return labels


def _parts(expr: str) -> list[Expr]:
    found: list[Expr] = []

    def note(part: Expr) -> None:
        found.append(part.vector_selector if isinstance(part, MatrixSelector) else part)

    promql_parser.walk(promql_parser.parse(expr), note)
    return found


def _asked(selector: VectorSelector) -> Asked:
    matchers = selector.matchers.matchers
    patterns = {(m.name, pattern) for m in matchers for pattern in _patterns(m)}
    return Asked(str(selector.name), frozenset(m.name for m in matchers), frozenset(patterns))


def _patterns(matcher: Matcher) -> list[str]:
    if matcher.op == MatchOp.Equal or matcher.op == MatchOp.NotEqual:  # noqa: PLR1714 - no hash
        return [re.escape(matcher.value)]
    whole = matcher.value
    return [whole] if "(" in whole else whole.split("|")
