"""Validates objects against the schemas of Kubernetes, and of operators whose resources we use."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache

import kubernetes_validate

from tests.support.manifests.model import Manifests, Object, name_of
from tests.support.manifests.render import ROOT
from tests.support.manifests.tools import find_tool, refuse_or_skip

OLDEST, NEWEST = "1.30", "1.37"
"""Versions of Kubernetes: the first with what we use (`preStop.sleep`), the last with a schema."""

_CORE = {"v1", "apps/v1", "batch/v1", "autoscaling/v2", "policy/v1"}
_VALIDATOR = ROOT / "tools" / "manifest_schemas"


def is_core(item: Object) -> bool:
    """Tell whether Kubernetes itself knows a kind."""
    version: str = item["apiVersion"]
    return version in _CORE or version.split("/", maxsplit=1)[0].endswith(".k8s.io")


def core_faults(manifests: Manifests, version: str) -> Iterator[str]:
    """Yield what a version of Kubernetes would refuse, unknown fields too."""
    for item in filter(is_core, manifests.objects):
        if fault := _core_fault(json.dumps(item), version):
            yield f"{name_of(item)} {fault}"


@cache
def _core_fault(document: str, version: str) -> str | None:
    """Judge one object; once, because overlays share most of theirs and schemas load slowly."""
    try:
        kubernetes_validate.validate(json.loads(document), version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'/'.join(map(str, error.path))}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError as error:
        return str(error.message)
    return None


def custom_faults(objects: Sequence[Object]) -> list[str]:
    """Return what the operators would refuse or drop of their resources."""
    if not (_VALIDATOR / "node_modules").is_dir():
        refuse_or_skip("node", "the validators are not installed: make k8s-tools does it")
    done = subprocess.run(
        [find_tool("node"), str(_VALIDATOR / "validate.mjs")],
        input=json.dumps(objects),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[list[str]] = json.loads(done.stdout)
    return [
        f"{name_of(item)}: {fault}"
        for item, faults in zip(objects, found, strict=True)
        for fault in faults
    ]


def custom(manifests: Manifests) -> list[Object]:
    """Return the objects that an operator brings the kind of."""
    return [item for item in manifests.objects if not is_core(item)]
