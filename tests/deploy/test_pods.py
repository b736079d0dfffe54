"""What pods run, run here: arguments, variables, mounted handlers and probes of the manifests."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.manifests.model import Manifests
from tests.support.manifests.render import K8S, kustomize
from tests.support.manifests.settings import environment
from tests.support.probes import OK, becomes
from tests.support.programs import Program, run_ctl

_SCRIPTS = Path(sys.executable).parent
_FREE_PORTS = dict.fromkeys(("JQ_GRPC_PORT", "JQ_METRICS_PORT", "JQ_HEALTH_PORT"), "0")
_GIVEN = ("JQ_", "COVERAGE_")


def _mounted(manifests: Manifests, folder: Path) -> Path:
    """Write the files of jq-handlers, and return the folder that the worker is started in."""
    container = manifests.workload("jq-worker").main
    (mount,) = (m for m in container["volumeMounts"] if m["name"] == "handlers")
    assert container["workingDir"] == mount["mountPath"]
    name = next(n for n in manifests.names("ConfigMap") if n.startswith("jq-handlers-"))
    place = folder / "handlers"
    place.mkdir()
    for file, text in manifests.named("ConfigMap", name)["data"].items():
        (place / file).write_text(text, encoding="utf-8")
    return place


@contextmanager
def _running(manifests: Manifests, workload: str, dsn: str, folder: Path) -> Iterator[Program]:
    """Start what a container starts, in front of another database and on free ports."""
    container = manifests.workload(workload).main
    env = {key: value for key, value in os.environ.items() if not key.startswith(_GIVEN)}
    env |= environment(manifests, container) | {"JQ_DB_URL": dsn} | _FREE_PORTS
    # The image's entry point is named like the image.
    command = container["image"].partition(":")[0].replace("jobqueue/", "jq-")
    program = Program([str(_SCRIPTS / command), *container.get("args", ())], folder, env)
    try:
        yield program
    finally:
        program.kill()


def _probed(manifests: Manifests, workload: str) -> set[str]:
    main = manifests.workload(workload).main
    return {main[p]["httpGet"]["path"] for p in ("startupProbe", "readinessProbe", "livenessProbe")}


async def test_the_pods_of_the_default_installation_run_a_job(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = kustomize(K8S)
    monkeypatch.chdir(_mounted(manifests, tmp_path))
    with _running(manifests, "jq-migrate", database, tmp_path) as migration:
        assert migration.ended() == 0, migration.text()
    with (
        _running(manifests, "jq-server", database, tmp_path) as server,
        _running(manifests, "jq-worker", database, tmp_path) as worker,
    ):
        for program, name in ((server.ready(), "jq-server"), (worker.ready(), "jq-worker")):
            for path in _probed(manifests, name):
                await becomes(program, path, OK)
        port = next(line["grpc_port"] for line in server.lines() if "grpc_port" in line)
        job = ("--queue", "default", "--type", "echo", "--payload", "hello", "--wait")
        done = run_ctl(f"127.0.0.1:{port}", "job", "submit", *job)
        assert done.returncode == 0, done.stderr
        for program in (worker, server):
            program.send(signal.SIGTERM)
            assert program.ended() == 0
