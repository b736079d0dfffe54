"""Writes the dashboards and the PrometheusRule; with ``--check`` only compares."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.monitoring.overview import OVERVIEW
from tools.monitoring.queue import QUEUE
from tools.monitoring.rule import prometheus_rule
from tools.monitoring.server import SERVER
from tools.monitoring.workers import WORKERS_PAGE

FOLDER = Path(__file__).parents[2] / "k8s" / "components" / "monitoring"
RULES = FOLDER / "rules.yaml"
DASHBOARDS = {
    "overview": OVERVIEW,
    "queue": QUEUE,
    "workers": WORKERS_PAGE,
    "server": SERVER,
}


def wanted() -> Mapping[Path, str]:
    """Return the text that each file should have."""
    texts = {
        FOLDER / "dashboards" / f"{name}.json": json.dumps(dashboard.json(), indent=2) + "\n"
        for name, dashboard in DASHBOARDS.items()
    }
    return texts | {FOLDER / "prometheus-rule.yaml": prometheus_rule(RULES)}


def stale() -> list[Path]:
    """Return the files that are not what they should be."""
    return [
        path
        for path, text in wanted().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write what is stale, or name it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if anything is old")
    check = parser.parse_args().check
    found = stale()
    for path in found:
        print(f"{'old' if check else 'written'}: {path}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted()[path], encoding="utf-8")
    return bool(check and found)


if __name__ == "__main__":
    sys.exit(main())
