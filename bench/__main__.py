"""The command line: `python -m bench`."""

import asyncio
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from bench.cluster import Cluster, running_cluster
from bench.contestants import PEERS, contestants, install
from bench.form import FORMS, FULL, Form
from bench.machine import machine, versions
from bench.processes import ROOT
from bench.report import write
from bench.results import Run
from bench.runner import forecast_s, run_all
from bench.stage import Stage
from bench.workloads.all import WORKLOADS
from bench.workloads.base import Workload

CACHE = ROOT / ".bench"
_PEERS = tuple(make().name for make in PEERS)
_NAMES = tuple(workload.name for workload in WORKLOADS)
_INTERRUPTED = 130
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _say(text: str) -> None:
    print(text, flush=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for."""

    form: Form
    workloads: tuple[Workload, ...]
    peers: frozenset[str]
    out: Path
    name: str


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--form", type=click.Choice(list(FORMS)), default="short", show_default=True)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(_NAMES),
    help="Workloads; all of the form unless given.",
)
@click.option("--peer", multiple=True, type=click.Choice(_PEERS), help="Peers; all unless given.")
@click.option("--no-peers", is_flag=True, help="Measure jobqueue alone.")
@click.option("--runs", type=click.IntRange(1), help="Instead of what the form says.")
@click.option("--estimate", is_flag=True, help="Say how long it would take; measure nothing.")
@click.option("--out", type=_FOLDER, default=CACHE / "results", help="Where results go.")
@click.option("--name", help="Name of the page and its files; the form's unless given.")
@click.option("--logs", type=_FOLDER, help="Keep the logs of all programs there.")
def main(**given: Any) -> None:
    """Measure jobqueue and its peers on one PostgreSQL, and write down what was seen.

    Writes NAME.json, NAME.md and plots. Environments of peers are made once, below .bench/.
    """
    form = FORMS[given["form"]].repeated(given["runs"])
    names = given["only"] or [w.name for w in WORKLOADS if w.short or form.name == FULL.name]
    order = Order(
        form=form,
        workloads=tuple(w for w in WORKLOADS if w.name in names),
        peers=frozenset(() if given["no_peers"] else given["peer"] or _PEERS),
        out=given["out"],
        name=given["name"] or form.name,
    )
    with TemporaryDirectory(prefix="jobqueue-bench-") as scratch:
        logs = given["logs"] or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        if given["estimate"]:
            systems = {system.name: system for system in contestants(order.peers)}
            _forecast(Stage(Cluster(logs), logs, order.form, systems), order)
            return
        try:
            asyncio.run(_measure(order, logs))
        except (KeyboardInterrupt, asyncio.CancelledError):
            _say("interrupted; everything is stopped")
            sys.exit(_INTERRUPTED)


async def _measure(order: Order, logs: Path) -> None:
    task = asyncio.current_task()
    assert task is not None
    # As Ctrl-C does: everything that was started is ended in order.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    systems, installed, absent = await install(order.peers, CACHE, _say)
    async with running_cluster(CACHE) as cluster:
        run = Run(
            name=order.name,
            form=order.form.name,
            started_at=_now(),
            machine=machine(),
            versions={**versions(), **installed},
            settings=await cluster.stated(),
        )
        stage = Stage(cluster, logs, order.form, systems, absent)
        _forecast(stage, order)

        def save(run: Run) -> None:
            run.finished_at = _now()
            write(run, order.out)

        await run_all(stage, order.workloads, run, _say, save)
    _say(f"measured for {sum(table.seconds for table in run.tables) / 60:.1f} min")
    _say(f"written to {order.out / order.name}.md")


def _forecast(stage: Stage, order: Order) -> None:
    times = {workload.name: forecast_s(stage, workload) for workload in order.workloads}
    for name, seconds in times.items():
        _say(f"{name:16}about {seconds:6,.0f} s")
    _say(f"{'together':16}about {sum(times.values()) / 60:6,.0f} min")


if __name__ == "__main__":
    main()
