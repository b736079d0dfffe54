"""What a dashboard is made of, and the JSON that Grafana reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

SCHEMA_VERSION = 41
WIDTH = 24
"""Columns of Grafana's grid."""

SERVERS = 'job=~"(.*/)?jq-server"'
WORKERS = 'job=~"(.*/)?jq-worker"'
_NAMESPACE = 'namespace=~"$namespace"'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Query:
    """An expression in which ``%`` stands for the namespace that is looked at."""

    expr: str
    legend: str = ""

    @property
    def promql(self) -> str:
        """The expression as Grafana gets it."""
        return self.expr.replace("%", _NAMESPACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A chart. ``steps`` are thresholds from below, each with the colour that begins there."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    width: int = 8
    height: int = 8
    steps: Sequence[tuple[float | None, str]] = ((None, "green"),)
    stacked: bool = False

    def json(self) -> Json:
        """Return what is peculiar to the kind of panel."""
        return {
            "type": "timeseries",
            "fieldConfig": {"defaults": self._field(), "overrides": []},
            "options": {
                "legend": {
                    "displayMode": "table",
                    "placement": "bottom",
                    "calcs": ["lastNotNull", "max"],
                },
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            "targets": [_target(query, n) for n, query in enumerate(self.queries)],
        }

    def _field(self) -> Json:
        marked = len(self.steps) > 1
        return {
            "unit": self.unit,
            "min": 0,
            "color": {"mode": "palette-classic"},
            "thresholds": _thresholds(self.steps),
            "custom": {
                "drawStyle": "line",
                "lineWidth": 1,
                "fillOpacity": 30 if self.stacked else 8,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "dashed" if marked else "off"},
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat(Panel):
    """One number, coloured by its thresholds."""

    width: int = 4
    height: int = 4

    def json(self) -> Json:
        """Return what is peculiar to it."""
        return {
            "type": "stat",
            "fieldConfig": {
                "defaults": {
                    "unit": self.unit,
                    "color": {"mode": "thresholds"},
                    "thresholds": _thresholds(self.steps),
                },
                "overrides": [],
            },
            "options": {
                "colorMode": "value",
                "graphMode": "area",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            },
            "targets": [_target(query, n) for n, query in enumerate(self.queries)],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Panel):
    """The present values of its queries: a row for each combination of labels, a column a query.

    ``units`` are those of columns that do not have the panel's; a queue's name leads to its
    dashboard. Labels in ``hidden`` are not shown.
    """

    width: int = WIDTH
    units: Mapping[str, str]
    hidden: Sequence[str] = ()

    def json(self) -> Json:
        """Return what is peculiar to it."""
        names = {
            _value_of(n, self.queries): q.legend for n, q in enumerate(self.queries) if q.legend
        }
        out = dict.fromkeys(("Time", *self.hidden), True)
        overrides = [_override(name, "unit", unit) for name, unit in self.units.items()]
        return {
            "type": "table",
            "fieldConfig": {
                "defaults": {"unit": self.unit, "thresholds": _thresholds(self.steps)},
                "overrides": [*overrides, _override("queue", "links", [_TO_QUEUE])],
            },
            "options": {"showHeader": True, "cellHeight": "sm"},
            "transformations": [
                {"id": "merge", "options": {}},
                {"id": "organize", "options": {"excludeByName": out, "renameByName": names}},
            ],
            "targets": [
                _target(query, n) | {"format": "table", "instant": True, "range": False}
                for n, query in enumerate(self.queries)
            ],
        }


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels under it; ``repeat`` names the variable it is repeated for."""

    title: str
    panels: Sequence[Panel]
    repeat: str | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """What the reader may choose: the values that a label of a metric has.

    ``everything`` is the pattern that stands for all of them, None: their list.
    """

    name: str
    metric: str
    everything: str | None = None
    chosen: str = "$__all"

    def json(self) -> Json:
        """Return Grafana's form."""
        query = f"label_values({self.metric.replace('%', _NAMESPACE)}, {self.name})"
        return {
            "name": self.name,
            "label": self.name.capitalize(),
            "type": "query",
            "datasource": _SOURCE,
            "definition": query,
            "query": {"query": query, "refId": self.name},
            "refresh": 2,  # whenever the range of time changes
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": self.everything,
            "current": {
                "text": ["All" if self.chosen == "$__all" else self.chosen],
                "value": [self.chosen],
            },
        }


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = ()

    def json(self) -> Json:
        """Return the whole as Grafana stores it."""
        variables = (NAMESPACE, *self.variables)
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["jobqueue"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timezone": "",
            "links": [_TO_OTHERS],
            "annotations": {"list": []},
            "templating": {"list": [_DATA_SOURCE, *(v.json() for v in variables)]},
            "panels": list(_placed(self.rows)),
        }


NAMESPACE = Variable("namespace", "jq_build_info", everything=".*")
"""Where targets have no such label its pattern takes them all."""

_DATA_SOURCE: Json = {
    "name": "datasource",
    "label": "Prometheus",
    "type": "datasource",
    "query": "prometheus",
    "current": {},
    "hide": 0,
    "refresh": 1,
}
_TO_OTHERS: Json = {
    "title": "jobqueue",
    "type": "dashboards",
    "tags": ["jobqueue"],
    "asDropdown": False,
    "includeVars": True,
    "keepTime": True,
}
_TO_QUEUE: Json = {
    "title": "Show ${__value.text}",
    "url": "/d/jobqueue-queue?${datasource:queryparam}&${namespace:queryparam}"
    "&var-queue=${__value.text}&${__url_time_range}",
}


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    """Yield headings and panels with their places, filled from the left as far as they fit."""
    number, y = 0, 0
    for row in rows:
        number += 1
        yield _heading(row, number, y)
        x, y, lowest = 0, y + 1, y + 1
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y = 0, lowest
            number += 1
            yield _panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": panel.height})
            x, lowest = x + panel.width, max(lowest, y + panel.height)
        y = lowest


def _heading(row: Row, number: int, y: int) -> Json:
    heading: Json = {
        "id": number,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
        "panels": [],
    }
    return heading | ({"repeat": row.repeat} if row.repeat else {})


def _panel(panel: Panel, number: int, place: Mapping[str, int]) -> Json:
    return {
        "id": number,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": dict(place),
        **panel.json(),
    }


def _target(query: Query, number: int) -> Json:
    return {
        "refId": _ref(number),
        "datasource": _SOURCE,
        "expr": query.promql,
        "legendFormat": query.legend or "__auto",
        "instant": False,
        "range": True,
    }


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _value_of(number: int, queries: Sequence[Query]) -> str:
    """Return what Grafana calls the values of a table's query."""
    return f"Value #{_ref(number)}" if len(queries) > 1 else "Value"


def _override(name: str, what: str, value: object) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": what, "value": value}],
    }


def _thresholds(steps: Sequence[tuple[float | None, str]]) -> Json:
    return {
        "mode": "absolute",
        "steps": [{"value": value, "color": color} for value, color in steps],
    }
