"""Dashboards: what Grafana would refuse or show wrong, and that living programs answer them."""

import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from jobqueue.externalscaler import externalscaler_pb2
from jobqueue.v1 import admin_service_pb2, event_service_pb2, job_service_pb2, worker_service_pb2
from tests.support.metrics import Page, metrics_port, read_page
from tests.support.prometheus import Prometheus, needed, running_prometheus
from tests.support.promql import Asked, asked, grouped
from tests.support.waiting import eventually_sync
from tools.metrics_dump import Load, Stage, ended, running, work
from tools.monitoring.__main__ import DASHBOARDS, FOLDER, RULES, stale
from tools.monitoring.grafana import WIDTH
from tools.monitoring.server import STREAMS

Json = dict[str, Any]

CALLS = "jq_grpc_request_duration_seconds_count"
LOAD = Load(jobs=100, queues=2, restarts=0)
_OF_TARGETS = {"job", "instance", "namespace", "__name__"}
_VARIABLES = {
    "$__rate_interval": "1m",
    "$namespace": ".*",
    "$queue": "queue-00|queue-01",
}
_PAGES = [FOLDER / "dashboards" / f"{name}.json" for name in DASHBOARDS]


def _read(path: Path) -> Json:
    page: Json = json.loads(path.read_text(encoding="utf-8"))
    return page


def _panels(page: Json) -> Iterator[Json]:
    yield from (panel for panel in page["panels"] if panel["type"] != "row")


def _expressions(page: Json) -> Iterator[tuple[str, str]]:
    """Yield the title of a panel and an expression of it, with the variables filled in."""
    for panel in _panels(page):
        for target in panel["targets"]:
            expr = target["expr"]
            for name, value in _VARIABLES.items():
                expr = expr.replace(name, value)
            yield panel["title"], expr


def _rules() -> list[Json]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_files_are_what_their_descriptions_make() -> None:
    assert stale() == [], "make monitoring"
    assert {path.stem for path in (FOLDER / "dashboards").iterdir()} == set(DASHBOARDS)


def test_streams_are_left_out_where_it_matters_how_calls_end_and_how_long_they_take() -> None:
    assert set(STREAMS.split("|")) == {name for name, stream in _methods().items() if stream}
    (failing,) = (rule for rule in _rules() if rule.get("alert") == "JqCallsFail")
    assert failing["expr"].count(f'method!~"{STREAMS}"') == failing["expr"].count(CALLS)


def test_links_lead_to_dashboards_that_there_are() -> None:
    uids = [_read(path)["uid"] for path in _PAGES]
    linked = re.findall(r"/d/([\w-]+)", "".join(path.read_text() for path in [*_PAGES, RULES]))
    assert len(set(uids)) == len(uids)
    assert set(linked) <= set(uids)


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_panels_are_told_apart_explained_and_beside_each_other(path: Path) -> None:
    page = _read(path)
    numbers = [panel["id"] for panel in page["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in page["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = set(
            itertools.product(
                range(place["x"], place["x"] + place["w"]),
                range(place["y"], place["y"] + place["h"]),
            )
        )
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in _panels(page):
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_the_reader_chooses_the_data_source_everywhere(path: Path) -> None:
    page = _read(path)
    variables = {variable["name"]: variable for variable in page["templating"]["list"]}
    assert variables.pop("datasource")["query"] == "prometheus"
    asking = [
        *variables.values(),
        *_panels(page),
        *(target for panel in _panels(page) for target in panel["targets"]),
    ]
    assert {each["datasource"]["uid"] for each in asking} == {"${datasource}"}
    repeated = {panel.get("repeat") for panel in page["panels"]} - {None}
    assert repeated <= set(variables)


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_expressions_look_at_the_chosen_namespace_and_name_no_unknown_variable(path: Path) -> None:
    for title, expr in _expressions(_read(path)):
        assert "$" not in expr, title
        for selector in asked(expr):
            assert ("namespace", ".*") in selector.patterns, title


def test_gauges_of_the_system_are_never_added_up_over_servers() -> None:
    gauges = r"jq_(job_queue_depth|queue_runnable|job_oldest\w+|job_unhandled|worker_active_count)"
    everything = [expr for path in _PAGES for _, expr in _expressions(_read(path))]
    everything += [rule["expr"] for rule in _rules()]
    found = [expr for expr in everything if re.search(gauges, expr)]
    assert found
    for expr in found:
        assert not re.search(rf"\b(sum|avg)( by \([^)]*\))? ?\({gauges}", expr), expr


# --------------------------------------------------------------------------- with living programs


class Scraped:
    """What two living programs told, and what is known of labels whose values are many."""

    def __init__(self, *pages: Page) -> None:
        self._labels: dict[str, set[str]] = {}
        self._values: dict[str, set[str]] = {"method": set(_methods()), "status_code": _codes()}
        for sample in itertools.chain.from_iterable(page.samples for page in pages):
            self._labels.setdefault(sample.name, set()).update(sample.labels)
            for label, value in sample.labels.items():
                self._values.setdefault(label, set()).add(value)

    def faults(self, selector: Asked) -> list[str]:
        """Return what a selector asks for and nobody has."""
        labels = self._labels.get(selector.metric)
        if labels is None:
            return [f"no metric {selector.metric}"]
        unknown = selector.labels - labels - _OF_TARGETS
        return [f"{selector.metric} has no label {label}" for label in sorted(unknown)] + [
            f"{selector.metric}: no {label} is like {pattern}"
            for label, pattern in sorted(selector.patterns)
            if label not in _OF_TARGETS and not self._has(label, pattern)
        ]

    def names(self) -> set[str]:
        """Return all metrics."""
        return set(self._labels)

    def knows(self, label: str) -> bool:
        """Tell whether some metric has this label."""
        return label in self._values or label in _OF_TARGETS

    def _has(self, label: str, pattern: str) -> bool:
        return any(re.fullmatch(pattern, value) for value in self._values.get(label, ()))


def _methods() -> dict[str, bool]:
    """Return the calls, and whether each is a stream."""
    files = (admin_service_pb2, event_service_pb2, job_service_pb2, worker_service_pb2)
    return {
        f"{service.name}/{method.name}": method.server_streaming
        for file in (*files, externalscaler_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def _codes() -> set[str]:
    return {code.name for code in grpc.StatusCode}


def _everything_asked() -> Mapping[str, str]:
    """Return all expressions of dashboards and rules, by where they are."""
    shown = {
        f"{path.stem}: {title}: {expr}": expr
        for path in _PAGES
        for title, expr in _expressions(_read(path))
    }
    return shown | {str(rule.get("alert", rule.get("record"))): rule["expr"] for rule in _rules()}


def _faults(scraped: Scraped) -> list[str]:
    made = {"up", "ALERTS", *(rule["record"] for rule in _rules() if "record" in rule)}
    found = []
    for where, expr in _everything_asked().items():
        selectors = [selector for selector in asked(expr) if selector.metric not in made]
        wrong = [fault for selector in selectors for fault in scraped.faults(selector)]
        wrong += [f"nobody has {label}" for label in grouped(expr) if not scraped.knows(label)]
        found += [f"{where}: {fault}" for fault in wrong]
    return found


def _unseen(scraped: Scraped) -> set[str]:
    """Return the metrics that no dashboard shows."""
    shown = {s.metric for path in _PAGES for _, e in _expressions(_read(path)) for s in asked(e)}
    parts = re.compile(r"_(bucket|sum|count)$")
    return {parts.sub("", name) for name in scraped.names()} - {parts.sub("", n) for n in shown}


def _unanswered(prometheus: Prometheus) -> list[str]:
    """Return the expressions of dashboards for which there is not one number."""
    return [
        f"{path.stem}: {title}: {expr}"
        for path in _PAGES
        for title, expr in _expressions(_read(path))
        if not any(math.isfinite(float(s["value"][1])) for s in prometheus.query(expr))
    ]


@pytest.mark.timeout(600)
def test_living_programs_have_every_metric_label_and_value_and_answer_every_panel(
    tmp_path: Path, validated: Callable[[str], None]
) -> None:
    needed("prometheus")
    tmp_path.chmod(0o711)  # as root the database may run as nobody
    with running(LOAD, tmp_path) as stage:
        ports = {
            "jq-server": [metrics_port(stage.server)],
            "jq-worker": [metrics_port(stage.worker)],
        }
        with running_prometheus(tmp_path, RULES, ports) as prometheus:
            work(LOAD, stage)
            _wait_for(prometheus, LOAD.jobs)
            work(LOAD, stage)  # so that every counter moves between two looks
            eventually_sync(lambda: ended(stage, 2 * LOAD.jobs), within_s=60)
            _wait_for(prometheus, 2 * LOAD.jobs)
            scraped = Scraped(*(read_page(port) for each in ports.values() for port in each))
            assert _faults(scraped) == []
            assert _unseen(scraped) == set()
            with contextlib.suppress(AssertionError):  # the next line tells which are missing
                eventually_sync(lambda: _answered_or_worked(prometheus, stage), within_s=60)
            assert _unanswered(prometheus) == []
            rules = prometheus.rules()
            assert {rule["health"] for rule in rules} == {"ok"}
            firing = {rule["name"] for rule in rules if rule.get("state") == "firing"}
            assert firing == {"JqDeadLettersIncreasing"}, "some of these jobs die"
    validated(f"{len(_everything_asked())} expressions of dashboards and rules on living programs")


def _answered_or_worked(prometheus: Prometheus, stage: Stage) -> bool:
    """Tell whether every panel has figures; if not, let there be news.

    On a busy machine what happened at first may be out of the sight of a rate by now.
    """
    if not _unanswered(prometheus):
        return True
    work(LOAD, stage)
    return False


def _wait_for(prometheus: Prometheus, jobs: int) -> None:
    """Wait until Prometheus has seen so many jobs end."""
    expr = 'sum(jq_job_queue_depth{status=~"DONE|DEAD_LETTERED"})'
    eventually_sync(lambda: prometheus.value(expr) == jobs, within_s=60, what="a scrape of the end")
