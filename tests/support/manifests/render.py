"""Renders k8s/ as `kubectl apply -k` would, without a cluster."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from tests.support.manifests.model import Manifests
from tests.support.manifests.tools import find_tool

ROOT = Path(__file__).parents[3]
K8S = ROOT / "k8s"


@cache
def _rendered(folder: Path) -> str:
    kubectl = find_tool("kubectl")
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, f"kustomize warns: {done.stderr}"
    return done.stdout


def kustomize(folder: Path) -> Manifests:
    """Return what a folder renders to; who changes it changes a copy of their own."""
    return Manifests.parse(_rendered(folder))


@cache
def _combined(components: tuple[str, ...]) -> str:
    """Render the base with components, in a folder outside as a user would have one."""
    with TemporaryDirectory() as place:
        folder = Path(place).resolve()
        way = Path(os.path.relpath(K8S, folder))
        document = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": "jobqueue",
            "resources": [str(way / "base")],
            "components": [str(way / "components" / name) for name in components],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        return _rendered.__wrapped__(folder)


def combination(components: Sequence[str]) -> Manifests:
    """Return the base with some components."""
    return Manifests.parse(_combined(tuple(components)))
