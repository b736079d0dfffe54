"""All our rules for rendered manifests, whoever rendered them.

`faults` is what a test asks. Kustomize and the Helm chart pass the same rules.
"""

from collections.abc import Callable, Iterator, Mapping

from tests.support.manifests import network, pods, references, scaling, schemas, settings
from tests.support.manifests.model import Manifests

Check = Callable[[Manifests], Iterator[str]]

EVERYWHERE: tuple[Check, ...] = (
    pods.insecure,
    pods.unbounded,
    pods.unpinned,
    pods.unprobed,
    pods.lost_ports,
    pods.tokens,
    references.unmatched,
    references.closed_ports,
    references.homeless,
    scaling.blocked_evictions,
    scaling.miscounted,
    network.cut_off,
    network.laid_open,
)
"""Rules that hold for every rendering."""


def faults(
    manifests: Manifests,
    *,
    secrets: Mapping[str, Mapping[str, str]] = settings.SECRETS,
    scaled: bool = True,
) -> list[str]:
    """Return all that is wrong with a rendering. Custom resources: `schemas.custom_faults`.

    ``secrets`` are those made by hand; ``scaled`` says that workers must have their scaler.
    """
    found = [fault for check in EVERYWHERE for fault in check(manifests)]
    found += references.dangling(manifests, secrets)
    found += settings.unsettled(manifests, secrets)
    if scaled:
        found += scaling.misscaled(manifests)
    for version in (schemas.OLDEST, schemas.NEWEST):
        found += [f"Kubernetes {version}: {f}" for f in schemas.core_faults(manifests, version)]
    return found
