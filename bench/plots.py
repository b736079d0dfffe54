"""Small SVG charts: bars with whiskers, and lines over time. No library needed."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from bench.results import Point
from bench.stats import Spread

_WIDTH = 760
_FONT = "font-family='sans-serif' font-size='12'"
_INK, _GRID = "#24292f", "#d0d7de"
_COLOURS = ("#0969da", "#bf3989", "#1a7f37", "#9a6700", "#8250df", "#cf222e", "#57606a", "#0a7d91")
_LABELS, _RIGHT, _ROW, _TOP = 250, 90, 26, 40


def bars(title: str, unit: str, values: Mapping[str, Spread]) -> str:
    """Draw one bar a label: the median, and a whisker from the lowest to the highest run."""
    span = _WIDTH - _LABELS - _RIGHT
    most = max((spread.high for spread in values.values()), default=0.0) or 1.0
    rows = [
        _bar(index, label, spread, span / most)
        for index, (label, spread) in enumerate(values.items())
    ]
    height = _TOP + _ROW * len(values) + 10
    return _document(f"{title} ({unit})", height, "".join(rows))


def _bar(index: int, label: str, spread: Spread, scale: float) -> str:
    y = _TOP + index * _ROW
    middle = y + _ROW / 2 - 2
    low, high = (_LABELS + value * scale for value in (spread.low, spread.high))
    colour = _COLOURS[0] if label.startswith("jobqueue") else _COLOURS[-2]
    return (
        _text(_LABELS - 8, middle + 4, label, anchor="end")
        + f"<rect x='{_LABELS}' y='{y}' width='{spread.median * scale:.1f}' height='{_ROW - 6}'"
        f" fill='{colour}'/>"
        + _line(low, middle, high, middle, _INK)
        + _line(low, middle - 4, low, middle + 4, _INK)
        + _line(high, middle - 4, high, middle + 4, _INK)
        + _text(max(high, _LABELS) + 6, middle + 4, number(spread.median))
    )


def lines(title: str, unit: str, series: Mapping[str, Sequence[Point]]) -> str:
    """Draw one line a label over seconds, from zero."""
    points = [point for line in series.values() for point in line]
    right = max((x for x, _ in points), default=0.0) or 1.0
    most = nice_ceiling(max((y for _, y in points), default=0.0))
    frame = _Frame(right, most)
    drawn = [
        frame.path(line, _COLOURS[index % len(_COLOURS)])
        for index, line in enumerate(series.values())
    ]
    legend = [
        _legend(index, label, frame.bottom + 42 + 18 * index) for index, label in enumerate(series)
    ]
    height = frame.bottom + 50 + 18 * len(series)
    return _document(f"{title} ({unit})", height, frame.grid() + "".join(drawn + legend))


class _Frame:
    """The axes of a line chart."""

    left, top, right, bottom = 70, _TOP, _WIDTH - 20, 300

    def __init__(self, seconds: float, most: float) -> None:
        self._seconds = seconds
        self._most = most

    def x(self, seconds: float) -> float:
        """Return where a time lies."""
        return self.left + (self.right - self.left) * seconds / self._seconds

    def y(self, value: float) -> float:
        """Return where a value lies."""
        return self.bottom - (self.bottom - self.top) * value / self._most

    def path(self, line: Sequence[Point], colour: str) -> str:
        """Return one line."""
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in line)
        return f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='1.5'/>"

    def grid(self) -> str:
        """Return four steps of each axis."""
        parts = []
        for step in range(5):
            value, seconds = self._most * step / 4, self._seconds * step / 4
            parts += [
                _line(self.left, self.y(value), self.right, self.y(value), _GRID),
                _text(self.left - 6, self.y(value) + 4, number(value), anchor="end"),
                _text(self.x(seconds), self.bottom + 18, f"{seconds:.0f} s", anchor="middle"),
            ]
        return "".join(parts)


def _legend(index: int, label: str, y: float) -> str:
    colour = _COLOURS[index % len(_COLOURS)]
    return f"<rect x='70' y='{y - 9}' width='12' height='10' fill='{colour}'/>" + _text(
        88, y, label
    )


def number(value: float) -> str:
    """Return a number as people read it: no digits that mean nothing."""
    digits = 0 if value >= 100 or value == int(value) else 2  # noqa: PLR2004 - three figures will do
    return f"{value:,.{digits}f}"


def nice_ceiling(value: float) -> float:
    """Return the next 1, 2, 2.5, 4, 5 or 10 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 10) if step * power >= value)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}'/>"


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(text)}</text>"


def _document(title: str, height: float, body: str) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height:.0f}'"
        f" width='{_WIDTH}' height='{height:.0f}' {_FONT} fill='{_INK}' role='img'"
        f" aria-label={quoteattr(title)}>"
        f"<rect width='100%' height='100%' fill='#ffffff'/>"
        f"<text x='10' y='22' font-size='15' font-weight='bold'>{escape(title)}</text>"
        f"{body}</svg>\n"
    )
