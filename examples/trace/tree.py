"""Spans as a tree for people."""

from collections.abc import Iterator, Sequence

from examples.trace.collector import Span

_ATTEMPT = "messaging.jobqueue.attempt"
_NAME_WIDTH, _SERVICE_WIDTH = 24, 10
_NS_PER_MS = 1e6


def tree(spans: Sequence[Span]) -> list[str]:
    """Return a line for each span below its parent; a parent that is not there makes a root."""
    known = {span.span_id for span in spans}
    first = min((span.begun for span in spans), default=0)
    lines = []
    for root in (span for span in spans if span.parent_id not in known):
        lines.append(_line(root, "", first))
        lines += _below(root, spans, "", first)
    return lines


def _below(parent: Span, spans: Sequence[Span], indent: str, first: int) -> Iterator[str]:
    children = [span for span in spans if span.parent_id == parent.span_id]
    for child in children:
        last = child is children[-1]
        yield _line(child, f"{indent}{'└─ ' if last else '├─ '}", first)
        yield from _below(child, spans, f"{indent}{'   ' if last else '│  '}", first)


def _line(span: Span, indent: str, first: int) -> str:
    name = f"{indent}{span.name}"
    begun, took = (span.begun - first) / _NS_PER_MS, (span.ended - span.begun) / _NS_PER_MS
    attempt = f"  attempt {span.attributes[_ATTEMPT]}" if _ATTEMPT in span.attributes else ""
    error = f"  {span.attributes.get('error.type', 'error')}" if span.failed else ""
    return (
        f"{name:<{_NAME_WIDTH}}{span.service:<{_SERVICE_WIDTH}}"
        f" at {begun:8.1f} ms, {took:7.1f} ms{attempt}{error}"
    )
