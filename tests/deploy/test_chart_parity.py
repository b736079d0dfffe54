"""Who moves from kustomize to Helm, or back, gets the same programs."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.helm import HPA, MINIMAL, Helm, names_of, over
from tests.support.manifests.model import Manifests, Workload
from tests.support.manifests.render import combination
from tests.support.manifests.settings import environment


def _kustomized() -> Manifests:
    return combination(("hpa",))


def test_the_chart_and_kustomize_have_the_same_objects(helm: Helm) -> None:
    # Kustomize makes the namespace, and may therefore close it; its example handler is a file, and
    # the settings of one program are a config map, which are variables of the pod here.
    only_kustomize = {
        ("ConfigMap", "jq-server-config"),
        ("ConfigMap", "jq-worker-config"),
        ("Namespace", "jobqueue"),
        ("NetworkPolicy", "default-deny"),
        ("NetworkPolicy", "allow-dns"),
        ("ConfigMap", "jq-handlers"),
    }
    only_chart = {("ConfigMap", "jq-migrate"), ("ServiceAccount", "jq-migrate")}
    theirs = {(kind, _unhashed(kind, name)) for kind, name in names_of(_kustomized())}
    assert names_of(helm.render(over(MINIMAL, HPA))) - only_chart == theirs - only_kustomize


def _unhashed(kind: str, name: str) -> str:
    return name.rpartition("-")[0] if kind == "ConfigMap" else name


@pytest.mark.parametrize("name", ["jq-server", "jq-worker", "jq-migrate"])
def test_the_pods_of_the_chart_and_of_kustomize_are_alike(helm: Helm, name: str) -> None:
    ours, theirs = helm.render(over(MINIMAL, HPA)), _kustomized()
    assert _essence(ours, name) == _essence(theirs, name)


_ESSENTIAL = ("ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "resources")
_POD = ("securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken")
# What kustomize says though it is the default, and its example handler. A migration gets the whole
# Secret here, because settings of the server that come to it may need the rest.
_APART = {
    "JQ_SERVER_SHUTDOWN_GRACE_PERIOD_S",
    "JQ_WORKER_SHUTDOWN_GRACE_PERIOD_S",
    "JQ_WORKER_HANDLERS",
    "PYTHONPATH",
    "JQ_REDIS_PASSWORD",
    "JQ_KAFKA_SASL_PASSWORD",
}


def _essence(manifests: Manifests, name: str) -> Mapping[str, Any]:
    workload = manifests.workload(name)
    main = workload.main
    parts = {key: main.get(key) for key in (*_ESSENTIAL, "name", "image", "securityContext")}
    # Kustomize names its example handler by a variable.
    parts["args"] = [arg for arg in main.get("args", ()) if not arg.startswith("--handlers=")]
    parts["ports"] = workload.ports()
    parts["pod"] = {key: workload.pod.get(key) for key in _POD}
    parts["env"] = environment(manifests, main).keys() - _APART
    parts["spread"] = [
        {key: value for key, value in spread.items() if key != "labelSelector"}
        for spread in workload.pod.get("topologySpreadConstraints", ())
    ]
    parts["tmp"] = workload.pod["volumes"][0]
    return parts


@pytest.mark.parametrize("name", ["jq-server", "jq-worker"])
def test_the_scalers_and_budgets_of_the_chart_and_of_kustomize_are_alike(
    helm: Helm, name: str
) -> None:
    ours, theirs = helm.render(over(MINIMAL, HPA)), _kustomized()
    for kind in ("HorizontalPodAutoscaler", "PodDisruptionBudget"):
        one, other = (dict(m.named(kind, name)["spec"]) for m in (ours, theirs))
        for spec in (one, other):
            spec.pop("selector", None)
        assert one == other


def test_the_service_of_the_chart_and_of_kustomize_are_alike(helm: Helm) -> None:
    one, other = (m.named("Service", "jq-server")["spec"] for m in (helm.render(), _kustomized()))
    ports = [{p["name"]: (p["port"], p["targetPort"]) for p in s["ports"]} for s in (one, other)]
    assert ports[0] == ports[1]
    assert one["clusterIP"] == other["clusterIP"] == "None"


def test_workloads_that_are_compared_exist(helm: Helm) -> None:
    found: list[Workload] = helm.render().workloads()
    assert {w.name for w in found} == {"jq-server", "jq-worker", "jq-migrate"}
