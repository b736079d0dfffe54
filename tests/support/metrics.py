"""Reads metrics as Prometheus does."""

import asyncio
import urllib.request
from collections import Counter
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.programs import Program
from tests.support.waiting import eventually

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@dataclass(frozen=True)
class Page:
    """What one program told."""

    text: str
    content_type: str
    families: frozenset[str]
    samples: tuple[Sample, ...]

    @property
    def series(self) -> int:
        """How many there are."""
        return len(self.samples)

    def value(self, name: str, **labels: str) -> float | None:
        """Return the one value with exactly these labels, None when there is none."""
        found = [s.value for s in self.samples if s.name == name and s.labels == labels]
        assert len(found) <= 1, f"{name}{labels} is there {len(found)} times"
        return found[0] if found else None

    def by(self, name: str, *labels: str) -> Counter[tuple[str, ...]]:
        """Return the values that are not zero, summed up by these labels."""
        sums: Counter[tuple[str, ...]] = Counter()
        for sample in self.samples:
            if sample.name == name and sample.value:
                sums[tuple(sample.labels[label] for label in labels)] += int(sample.value)
        return sums

    def queues(self, name: str = "") -> set[str]:
        """Return the queues that have a series, of this metric or of any."""
        return {
            sample.labels["queue"]
            for sample in self.samples
            if "queue" in sample.labels and name in ("", sample.name)
        }


def metrics_port(program: Program, nth: int = 0) -> int:
    """Return where a program, or the ``nth`` of its processes, is read."""
    ports = [line["metrics_port"] for line in program.lines() if "metrics_port" in line]
    return int(ports[nth])


def read_page(port: int, accept: str = "") -> Page:
    """Read one page."""
    url = f"http://127.0.0.1:{port}/metrics"
    request = urllib.request.Request(url, headers={"accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return page_of(answer.read().decode(), answer.headers["content-type"])


def page_of(text: str, content_type: str = "") -> Page:
    """Parse a page of Prometheus' text format."""
    found = list(text_string_to_metric_families(text)) if "openmetrics" not in content_type else []
    names = frozenset(
        family.name + ("_total" if family.type == "counter" else "") for family in found
    )
    return Page(text, content_type, names, tuple(s for family in found for s in family.samples))


async def scrape(program: Program) -> Page:
    """Read the page of a program that has said where."""

    async def look() -> bool:
        return any("metrics_port" in line for line in program.lines())

    await eventually(look, within_s=30, what="the metrics port")
    return await asyncio.to_thread(read_page, metrics_port(program))
