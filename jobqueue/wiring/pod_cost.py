"""Who tells Kubernetes what runs in this pod, and what is said about it.

A worker alone tells it itself. Of several processes the parent does, for all; its children report
to it.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from jobqueue.config.model import WorkerSettings
from jobqueue.domain.load import Load
from jobqueue.kubernetes.api import PodApi
from jobqueue.kubernetes.deletion_cost import DeletionCost
from jobqueue.kubernetes.pod import Pod, find_pod
from jobqueue.kubernetes.signals import (
    COST_UNWRITTEN,
    COST_WRITTEN,
    CostUnwritten,
    CostWritten,
)
from jobqueue.runtime.log import Quiet, get_logger
from jobqueue.runtime.service import Service
from jobqueue.runtime.shutdown import ShutdownSignals
from jobqueue.worker.board import Board, LoadReport, Place

_log = get_logger(__name__)


Listener: TypeAlias = Pod | Place
"""Whom a process tells what it runs: Kubernetes, or its parent."""


def listener(place: str | None, worker: WorkerSettings, env: Mapping[str, str]) -> Listener | None:
    """Return whom this process tells what it runs, if anybody. Raises SettingsError."""
    if place is not None:
        return Place.taken_from(place)
    if not worker.pod_deletion_cost:
        return None
    return find_pod(env, Path(worker.kubernetes_credentials_dir))


def open_board(worker: WorkerSettings) -> Board | None:
    """Return where the processes of a family report, if somebody wants to know."""
    return Board(worker.processes) if worker.pod_deletion_cost else None


@asynccontextmanager
async def telling(
    to: Listener | None,
    worker: WorkerSettings,
    load: Callable[[], Load],
    asked: ShutdownSignals,
) -> AsyncIterator[None]:
    """Tell ``to`` what runs here while the inside goes on. Leaving takes no longer for it."""
    match to:
        case None:
            yield
            return
        case Place():
            service: Service = LoadReport(to, load)
        case Pod():
            PodCostLog(to).listen()
            interval_s = worker.pod_deletion_cost_interval_s
            service = DeletionCost(PodApi(to), load, asked.shutdown.is_set, interval_s=interval_s)
    await service.start()
    try:
        yield
    finally:
        await service.stop(0.0)


class PodCostLog:
    """Turns the signals of the kubernetes room into lines, one per cause in ten seconds."""

    def __init__(self, pod: Pod) -> None:
        self._log = _log.bind(pod=pod.name, namespace=pod.namespace)
        self._quiet = Quiet()

    def listen(self) -> None:
        """Subscribe for the life of the process."""
        COST_WRITTEN.subscribe(self._written)
        COST_UNWRITTEN.subscribe(self._unwritten)

    def _written(self, news: CostWritten) -> None:
        write = self._log.debug if news.known else self._log.info
        write("the pod's deletion cost is written", cost=news.cost)

    def _unwritten(self, news: CostUnwritten) -> None:
        if self._quiet.admits(news.cause):
            self._log.warning("the pod's deletion cost cannot be written", cause=news.cause)
