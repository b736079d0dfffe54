"""k8s/ as kustomize renders it: every overlay, and the base with every set of components."""

import itertools

import pytest

from tests.deploy.conftest import Tell
from tests.support.manifests.check import faults
from tests.support.manifests.model import Manifests
from tests.support.manifests.render import K8S, combination, kustomize
from tests.support.manifests.schemas import custom, custom_faults

SCALERS = ("hpa",)
OTHERS: tuple[str, ...] = ()
COMBINATIONS = [
    (scaler, *others)
    for scaler in SCALERS
    for size in range(len(OTHERS) + 1)
    for others in itertools.combinations(OTHERS, size)
]
FOLDERS = [".", *(f"overlays/{path.name}" for path in sorted((K8S / "overlays").glob("*/")))]
RENDERINGS = [*FOLDERS, *(f"base+{'+'.join(parts)}" for parts in COMBINATIONS)]


def render(name: str) -> Manifests:
    """Return a folder, or the base with components: `base+hpa+mtls`."""
    base, *components = name.split("+")
    return combination(components) if base == "base" else kustomize(K8S / base)


@pytest.mark.parametrize("name", RENDERINGS)
def test_what_is_rendered_passes_every_rule(name: str, validated: Tell) -> None:
    manifests = render(name)
    assert faults(manifests) == []
    validated(f"kustomize k8s/{name}: {len(manifests.objects)} objects, by rules and schemas")


@pytest.mark.parametrize("name", RENDERINGS)
def test_custom_resources_are_what_their_operators_expect(name: str, validated: Tell) -> None:
    objects = custom(render(name))
    assert custom_faults(objects) == []
    validated(f"kustomize k8s/{name}: {len(objects)} of operators")
