"""Who tells Kubernetes what runs, and what is said about it."""

import logging
from dataclasses import replace

import pytest

from jobqueue.config.model import WorkerSettings
from jobqueue.errors import SettingsError
from jobqueue.kubernetes.signals import CostUnwritten, CostWritten
from jobqueue.runtime.shutdown import ShutdownSignals
from jobqueue.wiring.pod_cost import PodCostLog, listener, open_board, telling
from jobqueue.worker.board import Place
from tests.support.kubernetes_api import POD, Cluster

OFF = WorkerSettings()
ON = replace(OFF, pod_deletion_cost=True, processes=2)


async def test_nobody_is_told_unless_asked_for() -> None:
    assert listener(None, OFF, {}) is None
    assert open_board(OFF) is None
    async with telling(None, OFF, lambda: pytest.fail("asked"), ShutdownSignals()):
        pass


def test_kubernetes_is_told_by_whoever_has_no_parent_to_tell(kube: Cluster) -> None:
    settings = replace(ON, kubernetes_credentials_dir=str(kube.folder))
    assert listener(None, settings, kube.env()) == kube.pod()
    with pytest.raises(SettingsError):
        listener(None, settings, {})


def test_one_of_several_processes_tells_its_parent_and_needs_to_know_no_pod() -> None:
    board = open_board(ON)
    assert board is not None
    assert listener(board.place(1), ON, {}) == Place(board.fd, 1)
    board.close()


def test_a_cause_is_told_once_and_the_first_success_after_it(
    kube: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    log = PodCostLog(kube.pod())
    log._unwritten(CostUnwritten("HTTP 403"))
    log._unwritten(CostUnwritten("HTTP 403"))
    log._unwritten(CostUnwritten("HTTP 500"))
    log._written(CostWritten(4, known=False))
    log._written(CostWritten(8, known=True))
    assert [line.levelname for line in caplog.records] == ["WARNING", "WARNING", "INFO", "DEBUG"]
    assert {line.__dict__["context"]["pod"] for line in caplog.records} == {POD}
