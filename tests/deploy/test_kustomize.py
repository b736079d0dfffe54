"""k8s/ as kustomize renders it: every overlay, and the base with every set of components."""

import itertools
import json
import re
import tomllib
from collections import Counter

import pytest
import yaml

from tests.deploy.conftest import Tell
from tests.support.manifests.check import faults
from tests.support.manifests.model import Manifests, name_of, referenced
from tests.support.manifests.render import K8S, ROOT, combination, kustomize, overlay
from tests.support.manifests.scaling import misscaled
from tests.support.manifests.schemas import custom, custom_faults
from tests.support.manifests.settings import environment

_YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)

SCALERS = ("hpa", "keda")
OTHERS = ("monitoring", "mtls", "scale-in")
COMBINATIONS = [
    (scaler, *others)
    for scaler in SCALERS
    for size in range(len(OTHERS) + 1)
    for others in itertools.combinations(OTHERS, size)
] + [("keda", "mtls", "keda-mtls")]
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


def test_custom_resources_are_what_their_operators_expect(validated: Tell) -> None:
    # In one go: most of them are in many renderings, and node starts slowly.
    found = {json.dumps(item): item for name in RENDERINGS for item in custom(render(name))}
    assert custom_faults(list(found.values())) == []
    kinds = Counter(item["kind"] for item in found.values())
    validated(f"kustomize, for operators: {', '.join(f'{n} {k}' for k, n in kinds.items())}")


def test_a_server_with_tls_finds_its_certificate_where_the_secret_is_mounted() -> None:
    manifests = combination(["hpa", "mtls"])
    server = manifests.workload("jq-server")
    (volume,) = (v["name"] for v in server.pod["volumes"] if "secret" in v)
    (mount,) = (m["mountPath"] for m in server.main["volumeMounts"] if m["name"] == volume)
    env = environment(manifests, server.main)
    paths = {env[f"JQ_GRPC_TLS_{part}_PATH"] for part in ("CERT", "KEY", "CA")}
    # What cert-manager calls its files.
    assert paths == {f"{mount}/{file}" for file in ("tls.crt", "tls.key", "ca.crt")}


def test_workers_get_no_secret_but_the_address_of_their_database() -> None:
    for folder in FOLDERS:
        manifests = kustomize(K8S / folder)
        worker = manifests.workload("jq-worker")
        keys = [ref["key"] for ref in referenced(worker.pod, "secretKeyRef")]
        assert keys == ["JQ_DB_URL"]
        assert not list(referenced(worker.pod, "secretRef"))


def test_production_makes_no_secret_and_takes_images_from_a_registry() -> None:
    manifests = kustomize(K8S / "overlays" / "production")
    assert manifests.of("Secret") == []
    images = {container["image"] for w in manifests.workloads() for container in w.containers}
    assert all(".dkr.ecr." in image for image in images), images


def test_images_have_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in FOLDERS:
        workloads = kustomize(K8S / folder).workloads()
        ours = [w.main["image"] for w in workloads if w.name.startswith("jq-")]
        assert {image.rsplit(":", 1)[1] for image in ours} == {project["version"]}


@pytest.mark.parametrize(("scaler", "least"), [("hpa", 2), ("keda", 0)])
def test_workers_are_scaled_to_twenty_and_down_without_haste(scaler: str, least: int) -> None:
    manifests = combination([scaler])
    if scaler == "hpa":
        spec = manifests.named("HorizontalPodAutoscaler", "jq-worker")["spec"]
        bounds, behaviour = (spec["minReplicas"], spec["maxReplicas"]), spec["behavior"]
    else:
        spec = manifests.named("ScaledObject", "jq-worker")["spec"]
        bounds = (spec["minReplicaCount"], spec["maxReplicaCount"])
        behaviour = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert bounds == (least, 20)
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] == 300


def test_an_outage_takes_no_worker_away() -> None:
    spec = combination(["keda"]).named("ScaledObject", "jq-worker")["spec"]
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"


@pytest.mark.parametrize("scaler", SCALERS)
def test_servers_are_scaled_on_cpu_whatever_scales_the_workers(scaler: str) -> None:
    spec = combination([scaler]).named("HorizontalPodAutoscaler", "jq-server")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 10)
    (metric,) = spec["metrics"]
    assert metric["resource"] == {
        "name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 70},
    }


def test_every_dashboard_and_every_rule_is_installed() -> None:
    folder = K8S / "components" / "monitoring"
    manifests = combination(["hpa", "monitoring"])
    shown = {
        file: text
        for item in manifests.of("ConfigMap")
        if item["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
        for file, text in item["data"].items()
    }
    assert shown == {p.name: p.read_text("utf-8") for p in (folder / "dashboards").glob("*.json")}
    (rule,) = manifests.of("PrometheusRule")
    rules = yaml.safe_load((folder / "rules.yaml").read_text(encoding="utf-8"))
    assert rule["spec"]["groups"] == rules["groups"]


def test_what_is_applied_fits_into_the_annotation_that_remembers_it() -> None:
    for name in RENDERINGS:
        for item in render(name).objects:
            assert len(json.dumps(item)) < 256 * 1024, name_of(item)


def test_the_examples_of_the_readme_render_and_break_no_rule() -> None:
    text = (K8S / "README.md").read_text(encoding="utf-8")
    patch, policy = (yaml.safe_load(found) for found in _YAML.findall(text))
    manifests = overlay(patch)
    manifests.objects = [*manifests.objects, policy]
    assert faults(manifests) == []
    worker = manifests.workload("jq-worker")
    assert [volume["name"] for volume in worker.pod["volumes"]] == ["tmp"]


def test_hpa_and_keda_together_are_refused() -> None:
    assert [f for f in misscaled(combination(["hpa", "keda"])) if "has 2 scalers" in f]


def test_the_adapter_takes_the_largest_of_what_servers_tell_and_not_the_sum() -> None:
    path = K8S / "components" / "hpa" / "prometheus-adapter.yaml"
    (rule,) = yaml.safe_load(path.read_text(encoding="utf-8"))["rules"]["external"]
    metric = combination(["hpa"]).named("HorizontalPodAutoscaler", "jq-worker")["spec"]["metrics"]
    assert rule["name"]["as"] == metric[0]["external"]["metric"]["name"]
    assert rule["metricsQuery"].startswith("max(")
    assert rule["metricsQuery"].endswith("by (queue)")
