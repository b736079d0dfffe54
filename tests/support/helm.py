"""The chart as Helm reads it: rendered, linted and packaged, without a cluster."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.manifests.model import Manifests
from tests.support.manifests.tools import refuse_or_skip
from tools.chart_values import CHART

Values = Mapping[str, Any]

_PROGRAM = Path(__file__).with_name("helm_program.py")
RELEASE = NAMESPACE = "jobqueue"
MINIMAL: Values = {"existingSecret": "jq-secrets", "worker": {"handlers": ["myapp_jobs"]}}
"""The least that can be installed."""

HPA: Values = {"worker": {"autoscaling": {"type": "hpa"}}}
KEDA: Values = {
    "worker": {"autoscaling": {"type": "keda"}},
    "server": {"scaler": {"enabled": True}},
}
ISSUED: Values = {
    "tls": {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"name": "ca"}}}
}
"""Switched on: each scaler of workers; TLS with certificates of cert-manager."""


class Refused(Exception):
    """What Helm says of values that it does not take."""


class Helm:
    """A Helm that waits for work. It is fast: a rendering takes milliseconds."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def texts(
        self,
        values: Values = MINIMAL,
        *,
        chart: Path = CHART,
        name: str = RELEASE,
        namespace: str = NAMESPACE,
    ) -> dict[str, str]:
        """Return what each template renders to. Raises Refused."""
        asked = {"values": values, "name": name, "namespace": namespace}
        rendered: dict[str, str] = self._ask("render", chart=chart, **asked)
        return {Path(path).name: text for path, text in rendered.items()}

    def render(self, values: Values = MINIMAL, **how: Any) -> Manifests:
        """Return all objects, hooks too. Raises Refused."""
        texts = self.texts(values, **how)
        return Manifests.parse("\n---\n".join(t for n, t in texts.items() if n != "NOTES.txt"))

    def lint(self, values: Values) -> list[dict[str, Any]]:
        """Return what the linter remarks."""
        found: list[dict[str, Any]] = self._ask("lint", chart=CHART, values=values)
        return found

    def package(self, destination: Path) -> Path:
        """Pack the chart; return the archive."""
        return Path(self._ask("package", chart=CHART, destination=str(destination)))

    def _ask(self, do: str, *, chart: Path, **request: Any) -> Any:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        line = json.dumps({"do": do, "chart": str(chart), **request})
        self._program.stdin.write(f"{line}\n")
        self._program.stdin.flush()
        answer = json.loads(self._program.stdout.readline())
        if "refused" in answer:
            raise Refused(answer["refused"])
        return answer["done"]


@contextmanager
def running_helm() -> Iterator[Helm]:
    """Yield a Helm. Without its library the test is skipped, or fails with `JQ_REQUIRE_HELM=1`."""
    if importlib.util.find_spec("helm_python") is None:
        refuse_or_skip("helm", "helm-python-sdk is not installed here")
    with subprocess.Popen(
        [sys.executable, str(_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        yield Helm(program)
        assert program.stdin is not None
        program.stdin.close()


def example(name: str) -> Values:
    """Return the values of an example in the chart's folder `ci`."""
    text = (CHART / "ci" / f"{name}-values.yaml").read_text(encoding="utf-8")
    values: Values = yaml.safe_load(text)
    return values


EXAMPLES = sorted(path.name.removesuffix("-values.yaml") for path in CHART.glob("ci/*-values.yaml"))


def names_of(manifests: Manifests) -> set[tuple[str, str]]:
    """Return kind and name of every object."""
    return {(item["kind"], item["metadata"]["name"]) for item in manifests.objects}


def over(base: Values, values: Values) -> dict[str, Any]:
    """Return values over others, as two files given to Helm would be."""
    merged = dict(base)
    for key, value in values.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = over(below, value) if both and below is not None else value
    return merged


def at(path: str, value: object) -> dict[str, Any]:
    """Return `value` under a path such as `server.image.tag`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value
