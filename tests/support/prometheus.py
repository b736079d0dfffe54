"""Prometheus itself, and its tool for rules."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.manifests.tools import refuse_or_skip
from tests.support.redis import free_port
from tests.support.waiting import eventually_sync
from tools.prometheus import find

_START_S = 60.0


def needed(name: str) -> Path:
    """Return one of Prometheus' programs. Without it the test is skipped, or fails where told."""
    return find(name) or refuse_or_skip(
        "promtool", f"there is no {name}; `make promtool` fetches it"
    )


def run_promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    argv = [str(needed("promtool")), *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


class Prometheus:
    """One that runs, and its answers."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the present samples of an expression."""
        found: list[dict[str, Any]] = self._get("query", query=expr)["result"]
        return found

    def value(self, expr: str) -> float | None:
        """Return the value of the only sample, None when there is none."""
        found = self.query(expr)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules with their state and health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def ready(self) -> bool:
        """Tell whether it answers queries."""
        try:
            return bool(self.query("vector(1)"))
        except OSError:
            return False

    def _get(self, what: str, **parameters: str) -> dict[str, Any]:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{what}?{query}", timeout=30) as answer:
            data: dict[str, Any] = json.load(answer)["data"]
        return data


@contextmanager
def running_prometheus(
    folder: Path, rules: Path, targets: Mapping[str, Sequence[int]]
) -> Iterator[Prometheus]:
    """Run one until the block ends; it reads ports of the loopback each second, by job."""
    program = needed("prometheus")
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(_config(rules, targets)), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    argv = [
        *(str(program), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address={address}", "--log.level=warn"),
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
    prometheus = Prometheus(f"http://{address}")
    try:
        eventually_sync(prometheus.ready, within_s=_START_S, what="Prometheus")
        yield prometheus
    finally:
        process.kill()
        process.wait()


def _config(rules: Path, targets: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{p}" for p in ports]}]}
            for job, ports in targets.items()
        ],
    }
