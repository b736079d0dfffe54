"""Puts the figures of a run of `tuning` into the page for users: `python -m bench.advice RUN PAGE`.

RUN is the JSON of a run. What lies in PAGE between `<!-- bench: NAME -->` and `<!-- end -->` is
made anew; the words around it are people's.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import table_rows
from bench.stats import Spread
from bench.workloads.base import COSTS, RATE
from bench.workloads.tuning import BATCHES, CONCURRENCIES, POOLS, PREFETCHES, batch, drain, pool

_BLOCK = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_TITLES = {
    "jobs_per_s": RATE.title,
    "p99": "p99 ms",
    **{column.name: column.title for column in COSTS},
    "load_us": "client µs/job",
}
_RUNNING = ("jobs_per_s", "db_us", "worker_us", "wal_b")
_BATCHING = ("jobs_per_s", "db_us", "load_us", "wal_b")
_CALLING = ("jobs_per_s", "p99", "db_us", "server_us")

Samples = Mapping[str, Sequence[Mapping[str, float]]]
"""Values of each run, by variant."""


def blocks(run: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each block by its name. Raises KeyError when the run has no such cell."""
    (table,) = (table for table in run["tables"] if table["name"] == "tuning")
    cells = {c["variant"]: [s["values"] for s in c["samples"]] for c in table["cells"]}
    return {
        "origin": _origin(run, max(map(len, cells.values()))),
        "concurrency": _table("concurrency", {n: drain(n) for n in CONCURRENCIES}, _RUNNING, cells),
        "prefetch": _table("prefetch", {n: drain(10, n) for n in PREFETCHES}, _RUNNING, cells),
        "batches": _table("jobs a call", {n: batch(n) for n in BATCHES}, _BATCHING, cells),
        "pools": _table("`db.pool_size`", {n: pool(n) for n in POOLS}, _CALLING, cells),
    }


def renewed(page: str, texts: Mapping[str, str]) -> str:
    """Return the page with its blocks made anew. Raises ValueError unless it has each of them."""
    missing = texts.keys() - {found[1] for found in _BLOCK.findall(page)}
    if missing:
        raise ValueError(f"the page has no block {', '.join(sorted(missing))}")
    return _BLOCK.sub(lambda found: found[1] + texts[found[2]] + found[3], page)


def _origin(run: Mapping[str, Any], runs: int) -> str:
    machine, versions, settings = run["machine"], run["versions"], run["settings"]
    return (
        f"Measured on {run['finished_at'][:10]} with {versions['jobqueue']} on"
        f" {machine['cores']} cores ({machine['cpu']}),\ndurable PostgreSQL"
        f" {settings['server_version']}; medians, runs: {runs}.\n"
    )


def _table(head: str, variants: Mapping[int, str], columns: Sequence[str], cells: Samples) -> str:
    rows = [
        (f"{size:,}", *(_median(cells[variant], name) for name in columns))
        for size, variant in variants.items()
    ]
    return table_rows((head, *(_TITLES[name] for name in columns)), rows)


def _median(samples: Sequence[Mapping[str, float]], name: str) -> str:
    return f"{Spread.of([values[name] for values in samples]).median:,.0f}"


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    texts = blocks(json.loads(source.read_text(encoding="utf-8")))
    target.write_text(renewed(target.read_text(encoding="utf-8"), texts), encoding="utf-8")
