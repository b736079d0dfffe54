"""Renders k8s/ as `kubectl apply -k` would, without a cluster."""

import os
import subprocess
from collections.abc import Mapping, Sequence
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
    return _run(folder)


def _run(folder: Path) -> str:
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
    parts = [K8S / "components" / name for name in components]
    return _overlaid({"resources": [K8S / "base"], "components": parts})


def combination(components: Sequence[str]) -> Manifests:
    """Return the base with some components."""
    return Manifests.parse(_combined(tuple(components)))


def overlay(document: Mapping[str, object]) -> Manifests:
    """Return the default installation with a kustomization of a user's own on top."""
    return Manifests.parse(_overlaid({"resources": [K8S], **document}))


def _overlaid(document: Mapping[str, object]) -> str:
    """Render a kustomization in a folder elsewhere, as a user would have one."""
    with TemporaryDirectory() as place:
        folder = Path(place).resolve()
        whole = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": "jobqueue",
            **{key: _seen_from(folder, value) for key, value in document.items()},
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
        return _run(folder)


def _seen_from(folder: Path, value: object) -> object:
    """Make paths relative: kustomize takes no others."""
    if isinstance(value, list):
        return [_seen_from(folder, item) for item in value]
    return os.path.relpath(value, folder) if isinstance(value, Path) else value
