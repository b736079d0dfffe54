"""Who tells Kubernetes what runs, and what is said about it."""

import asyncio
import logging
from dataclasses import replace

import pytest

from jobqueue.config.model import WorkerSettings
from jobqueue.domain.load import IDLE
from jobqueue.errors import SettingsError
from jobqueue.kubernetes.api import PodApi
from jobqueue.kubernetes.signals import CostUnwritten, CostWritten
from jobqueue.runtime.shutdown import ShutdownSignals
from jobqueue.wiring.pod_cost import PodCostLog, listener, open_board, telling
from jobqueue.worker.board import Place
from tests.support.kubernetes_api import POD, Cluster, hangs
from tests.support.waiting import HANG_S

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


async def test_an_api_server_that_hangs_does_not_hold_up_the_end(
    kube: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PodApi.__init__, "__kwdefaults__", {"timeout_s": 3600.0})
    monkeypatch.setattr(PodCostLog, "listen", lambda _: None)  # it would for the whole process
    kube.behaviour = hangs
    async with asyncio.timeout(HANG_S):
        async with telling(kube.pod(), OFF, lambda: IDLE, ShutdownSignals()):
            await kube.is_asked(1)


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
