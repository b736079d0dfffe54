"""Rules of Prometheus: each alert fires when it should and only then, and leads somewhere."""

import re
import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobqueue.config.model import Settings
from tests.support.prometheus import run_promtool
from tests.support.promql import asked
from tools.monitoring.__main__ import FOLDER, RULES
from tools.prometheus import cache, find, main

Json = dict[str, Any]
Tell = Callable[[str], None]

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
RUNBOOKS = ROOT / "docs" / "monitoring.md"
PROMETHEUS = ROOT / "deploy" / "prometheus" / "prometheus.yml"
_ROW = re.compile(r"^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \| (\w+) \|", re.MULTILINE)


@lru_cache
def _read(path: Path) -> Json:
    content: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def _alerts() -> dict[str, Json]:
    rules = [rule for group in _read(RULES)["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


def _expected() -> list[Json]:
    """Return all expectations of the cases about alerts."""
    groups = [group for path in CASES for group in _read(path)["tests"]]
    return [
        case
        for group in groups
        for case in group.get("promql_expr_test", ())
        if case["expr"].startswith("ALERTS{")
    ]


def _labels(sample: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', sample))


def _firing() -> list[dict[str, str]]:
    """Return the labels of the alerts that the cases expect."""
    found = [_labels(s["labels"]) for case in _expected() for s in case["exp_samples"]]
    return [labels for labels in found if labels["alertstate"] == "firing"]


def test_prometheus_accepts_the_rules(validated: Tell) -> None:
    done = run_promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stdout + done.stderr
    validated(f"{len(_alerts())} alerts of {RULES.name}")


@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_only_then(cases: Path, validated: Tell) -> None:
    done = run_promtool("test", "rules", cases)
    assert done.returncode == 0, done.stdout + done.stderr
    validated(f"alerts in {len(_read(cases)['tests'])} situations of {cases.name}")


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    assert {labels["alertname"] for labels in _firing()} == set(_alerts())
    silent = [case["expr"] for case in _expected() if not case["exp_samples"]]
    patterns = [
        pattern
        for expr in silent
        for selector in asked(expr)
        for label, pattern in selector.patterns
        if label == "alertname"
    ]
    named = {name for name in _alerts() for p in patterns if re.fullmatch(p, name)}
    assert named == set(_alerts())


@pytest.mark.parametrize("name", _alerts())
def test_an_alert_says_how_urgent_it_is_what_is_wrong_and_where_to_look(name: str) -> None:
    alert = _alerts()[name]
    assert alert["labels"]["severity"] in {"page", "ticket"}
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url", "dashboard_url"}
    heading, _, anchor = notes["runbook_url"].rpartition("#")
    assert heading.endswith('"docs" }}/monitoring.md')
    assert anchor == name.lower()
    assert f"\n### {name}\n" in RUNBOOKS.read_text(encoding="utf-8")
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(notes.values()))) - {"namespace"}
    for labels in _firing():
        assert labels["alertname"] != name or used <= set(labels)


def test_the_table_of_alerts_is_that_of_the_rules() -> None:
    told = _ROW.findall(RUNBOOKS.read_text(encoding="utf-8"))
    rules = {
        (name, name.lower(), rule["labels"]["severity"], rule.get("for", "0m"))
        for name, rule in _alerts().items()
    }
    assert len(told) == len(rules)
    assert set(told) == rules


def test_links_of_the_runbooks_lead_to_headings() -> None:
    text = RUNBOOKS.read_text(encoding="utf-8")
    for document, anchor in re.findall(r"\]\(([\w.-]*)#([\w-]+)\)", text):
        target = (RUNBOOKS.parent / document if document else RUNBOOKS).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", target, re.MULTILINE)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_the_operators_resource_has_the_same_rules() -> None:
    resource = _read(FOLDER / "prometheus-rule.yaml")
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"] == _read(RULES)


def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    for path in (PROMETHEUS, RULES):
        shutil.copy(path, tmp_path)
    done = run_promtool("check", "config", tmp_path / PROMETHEUS.name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_targets_are_named_as_the_rules_ask_and_looked_for_on_the_usual_ports() -> None:
    jobs = {job["job_name"]: job for job in _read(PROMETHEUS)["scrape_configs"]}
    pattern = re.search(r'up\{job=~"([^"]+)"\}', _alerts()["JqDown"]["expr"])
    assert pattern
    assert all(re.fullmatch(pattern[1], job) for job in jobs)
    ports = {name: job["dns_sd_configs"][0]["port"] for name, job in jobs.items()}
    server = Settings().metrics.port
    assert ports == {"jq-server": server, "jq-worker": server + 1}


def test_grafana_finds_its_data_source_and_its_dashboards() -> None:
    provisioning = ROOT / "deploy" / "grafana" / "provisioning"
    (source,) = _read(provisioning / "datasources" / "prometheus.yaml")["datasources"]
    assert source["type"] == "prometheus"
    assert source["isDefault"]
    (provider,) = _read(provisioning / "dashboards" / "jobqueue.yaml")["providers"]
    assert provider["type"] == "file"
    assert not provider["allowUiUpdates"]


def test_a_program_on_the_path_is_used_before_one_that_was_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, fetched = tmp_path / "system", tmp_path / "jobqueue" / "prometheus"
    for folder in (system, fetched):
        folder.mkdir(parents=True)
        (folder / "promtool").touch(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert find("promtool") == fetched / "promtool"
    monkeypatch.setenv("PATH", str(system))
    assert find("promtool") == system / "promtool"
    assert find("prometheus") is None


def test_where_nothing_can_be_fetched_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert main() == 1
    assert "apt-get is not here" in capsys.readouterr().err
    assert list(cache().iterdir()) == [], "nothing half done is left"
