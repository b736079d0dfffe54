"""What the Helm chart renders to: the rules of all manifests, and what a chart can get wrong."""

import itertools
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobqueue.cli import server, worker
from jobqueue.domain.limits import Limits
from jobqueue.rpc.scaler_metadata import read_trigger
from tests.support.helm import (
    EXAMPLES,
    HPA,
    ISSUED,
    KEDA,
    MINIMAL,
    Helm,
    Values,
    example,
    names_of,
    over,
)
from tests.support.manifests.check import faults
from tests.support.manifests.model import Manifests, Object, referenced
from tests.support.manifests.network import laid_open
from tests.support.manifests.render import K8S
from tests.support.manifests.schemas import custom, custom_faults
from tests.support.manifests.settings import SECRETS, environment

OUTSIDE: Mapping[str, Mapping[str, str]] = {
    **SECRETS,
    "jq-kafka": {"username": "jobqueue", "password": "secret"},
    "jq-worker-secrets": {"JQ_DB_URL": "postgresql://jq_worker:secret@db.example.com/jobqueue"},
    "jq-partners-key": {"JQ_API_KEY": "0123456789abcdef"},
    "queue-certificate": {},
    "client-certificate": {},
    "postgres-ca": {},
}
"""Secrets that the examples suppose."""

REMOTE: Values = {"pools": [{"name": "default"}, {"name": "far", "remote": True}]}
TLS: Values = {
    "tls": {
        "enabled": True,
        "existingSecret": "queue-certificate",
        "existingClientSecret": "client-certificate",
    }
}
MUTUAL = over(over(KEDA, ISSUED), {"server": {"scaler": {"tls": "mutual"}}})

WATCHED: Values = {"monitoring": {"monitors": True, "rules": True, "dashboards": True}}

SWITCHES: Mapping[str, Values] = {
    "hpa": HPA,
    "keda": KEDA,
    "keda over TLS": over(over(KEDA, TLS), {"server": {"scaler": {"tls": "server"}}}),
    "keda over mTLS": MUTUAL,
    "fixed servers": {"server": {"replicas": 3, "autoscaling": {"enabled": False}}},
    "no migration": {"migration": {"enabled": False}},
    "no policies": {"networkPolicy": {"enabled": False}},
    "monitoring": WATCHED,
    "TLS": TLS,
    "TLS, clients not asked": over(TLS, {"tls": {"clientCertificates": False}}),
    "certificates": ISSUED,
    "remote": REMOTE,
    "remote over TLS": over(REMOTE, TLS),
    "remote with certificates": over(REMOTE, ISSUED),
    "remote only": {"pools": [{"name": "far", "remote": True}]},
    "no workers": {"pools": []},
    "deletion cost": {"worker": {"podDeletionCost": True}},
    "own secret of workers": {"worker": {"existingSecret": "jq-worker-secrets"}},
    "long grace": {"config": {"JQ_WORKER_SHUTDOWN_GRACE_PERIOD_S": 1800}},
    "long grace in a pool": {
        "pools": [{"name": "slow", "config": {"JQ_WORKER_SHUTDOWN_GRACE_PERIOD_S": 7.5}}]
    },
    "no sleep": {"server": {"preStopSleepSeconds": 0}},
}


_CUSTOM_KINDS = [
    "Certificate",
    "PodMonitor",
    "PrometheusRule",
    "ScaledObject",
    "ServiceMonitor",
    "TriggerAuthentication",
]
_LARGEST_CONFIG_MAP = 1024 * 1024


def _judged(manifests: Manifests) -> list[str]:
    # The number of pods may be fixed here, and policies left out, which kustomize's must not be.
    found = faults(manifests, secrets=OUTSIDE, scaled=False)
    agreed = () if manifests.of("NetworkPolicy") else set(laid_open(manifests))
    return [fault for fault in found if fault not in agreed]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_passes_the_rules_of_all_manifests(
    helm: Helm, name: str, validated: Callable[[str], None]
) -> None:
    manifests = helm.render(example(name))
    assert _judged(manifests) == []
    validated(f"chart, {name} values: {len(manifests.objects)} objects")


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_passes_the_rules_of_all_manifests(helm: Helm, switch: str) -> None:
    assert _judged(helm.render(over(MINIMAL, SWITCHES[switch]))) == []


def test_the_operators_take_every_custom_resource(
    helm: Helm, validated: Callable[[str], None]
) -> None:
    renderings = [*(over(MINIMAL, values) for values in SWITCHES.values()), *map(example, EXAMPLES)]
    found = {
        json.dumps(item): item for values in renderings for item in custom(helm.render(values))
    }
    assert custom_faults(list(found.values())) == []
    kinds = sorted({item["kind"] for item in found.values()})
    assert kinds == _CUSTOM_KINDS
    validated(f"chart, custom resources: {', '.join(kinds)}")


@pytest.mark.parametrize(
    ("scaler", "kind"), [("hpa", "HorizontalPodAutoscaler"), ("keda", "ScaledObject")]
)
def test_a_scaled_pool_has_one_scaler_and_leaves_the_number_of_pods_to_it(
    helm: Helm, scaler: str, kind: str
) -> None:
    manifests = helm.render(over(MINIMAL, SWITCHES[scaler]))
    scalers = manifests.of("HorizontalPodAutoscaler", "ScaledObject")
    assert [s["kind"] for s in scalers if s["metadata"]["name"] == "jq-worker"] == [kind]
    assert "replicas" not in manifests.workload("jq-worker").spec
    assert {s["spec"]["scaleTargetRef"]["name"] for s in scalers} == {"jq-server", "jq-worker"}


def test_a_trigger_on_time_stands_beside_the_one_on_jobs_and_takes_the_fallback_away(
    helm: Helm,
) -> None:
    spec = helm.render(example("production")).named("ScaledObject", "jq-worker-video")["spec"]
    told = [(t["metadata"]["mode"], t.get("metricType", "AverageValue")) for t in spec["triggers"]]
    assert told == [("depth", "AverageValue"), ("drain", "Value")]
    assert "fallback" not in spec
    for trigger in spec["triggers"]:
        read_trigger(trigger["metadata"], Limits())


def test_a_pool_without_a_scaler_has_the_number_of_pods_that_was_asked_for(helm: Helm) -> None:
    asked = {
        "pools": [
            {"name": "default"},
            {"name": "many", "replicas": 7},
            {"name": "off", "replicas": 0},
        ]
    }
    manifests = helm.render(over(MINIMAL, asked))
    names = ("jq-worker", "jq-worker-many", "jq-worker-off")
    assert [manifests.workload(name).spec["replicas"] for name in names] == [2, 7, 0]


def test_what_a_pool_says_wins_over_what_all_pools_have_even_when_it_says_no(helm: Helm) -> None:
    workers = helm.render(example("production")).component("worker")
    mounts = {w.name: w.pod["automountServiceAccountToken"] for w in workers}
    assert mounts == {"jq-worker": True, "jq-worker-video": True, "jq-worker-partners": False}


def test_a_remote_pool_knows_nothing_of_the_database(helm: Helm) -> None:
    values = over(over(MINIMAL, REMOTE), {"config": {"JQ_DB_SSLMODE": "require"}})
    values = over(values, {"worker": {"config": {"JQ_DB_POOL_SIZE": 3}}})
    manifests = helm.render(values)
    far = environment(manifests, manifests.workload("jq-worker-far").main, OUTSIDE)
    near = environment(manifests, manifests.workload("jq-worker").main, OUTSIDE)
    assert [name for name in far if "DB" in name] == []
    assert {"JQ_DB_SSLMODE", "JQ_DB_POOL_SIZE", "JQ_DB_URL"} <= near.keys()
    assert far["JQ_SERVER_ADDR"] == "jq-server.jobqueue.svc:50051"


def test_of_the_shared_secret_workers_get_the_database_alone(helm: Helm) -> None:
    manifests = helm.render()
    server, worker = (
        environment(manifests, manifests.workload(name).main) for name in ("jq-server", "jq-worker")
    )
    assert SECRETS["jq-secrets"].keys() <= server.keys()
    assert SECRETS["jq-secrets"].keys() & worker.keys() == {"JQ_DB_URL"}


def test_what_the_migration_needs_is_made_before_it(helm: Helm) -> None:
    for values in (MINIMAL, example("trial"), example("production")):
        manifests = helm.render(values)
        job = manifests.named("Job", "jq-migrate")
        assert _hook(job) == ("pre-install,pre-upgrade", 0)
        first = [
            item for item in manifests.objects if _hook(item) == ("pre-install,pre-upgrade", -10)
        ]
        made = {(item["kind"], item["metadata"]["name"]) for item in first}
        assert _needs(job) <= made | {("Secret", name) for name in OUTSIDE}


def _hook(item: Object) -> tuple[str | None, int]:
    notes = item["metadata"].get("annotations", {})
    return notes.get("helm.sh/hook"), int(notes.get("helm.sh/hook-weight", 0))


def _needs(job: Object) -> set[tuple[str, str]]:
    keys = {"configMapRef": "ConfigMap", "secretRef": "Secret", "secretKeyRef": "Secret"}
    pod = job["spec"]["template"]["spec"]
    used = {(kind, ref["name"]) for key, kind in keys.items() for ref in referenced(pod, key)}
    used |= {("Secret", ref["secretName"]) for ref in referenced(pod, "secret")}
    return used | {("ServiceAccount", pod["serviceAccountName"])}


def test_nothing_but_the_migration_is_a_hook(helm: Helm) -> None:
    hooks = {
        item["metadata"]["name"]
        for item in helm.render(example("production")).objects
        if _hook(item)[0] is not None
    }
    assert hooks == {"jq-migrate"}


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"JQ_LOGGING_LEVEL": "debug"}},
        {
            "server": {"config": {"JQ_LOGGING_LEVEL": "debug"}},
            "worker": {"config": {"JQ_LOGGING_LEVEL": "debug"}},
        },
        {"secret": {"JQ_REDIS_PASSWORD": "new"}},
    ],
    ids=["shared", "own", "secret"],
)
def test_a_change_of_a_setting_replaces_the_pods(helm: Helm, change: Values) -> None:
    before, after = helm.render(example("trial")), helm.render(over(example("trial"), change))
    for name in ("jq-server", "jq-worker"):
        assert _template(before, name) != _template(after, name)


def test_a_change_of_numbers_replaces_no_pod(helm: Helm) -> None:
    before = helm.render(over(MINIMAL, KEDA))
    change = {
        "worker": {"autoscaling": {"maxReplicas": 5}},
        "server": {"autoscaling": {"maxReplicas": 5}},
    }
    after = helm.render(over(over(MINIMAL, KEDA), change))
    for name in ("jq-server", "jq-worker"):
        assert _template(before, name) == _template(after, name)


def _template(manifests: Manifests, name: str) -> Object:
    template: Object = manifests.workload(name).spec["template"]
    return template


def test_no_value_changes_a_selector_because_selectors_cannot_be_changed(helm: Helm) -> None:
    seen: dict[str, Any] = {}
    changes = [*SWITCHES.values(), *map(example, EXAMPLES), {"commonLabels": {"team": "a"}}]
    changes += [{"server": {"podLabels": {"a": "b"}}, "worker": {"podLabels": {"a": "b"}}}]
    for change in changes:
        base = {} if "secret" in change else MINIMAL
        for item in helm.render(over(base, change)).of("Deployment"):
            selector = item["spec"]["selector"]
            assert seen.setdefault(item["metadata"]["name"], selector) == selector
    assert len(seen) > len(("jq-server", "jq-worker"))


def test_two_releases_in_one_namespace_share_no_name_and_no_pod(helm: Helm) -> None:
    values = over(MINIMAL, {**MUTUAL, **WATCHED})
    one, other = (
        helm.render(over(values, {"fullnameOverride": name}), name=name) for name in ("red", "blue")
    )
    assert not names_of(one) & names_of(other)
    for mine, theirs in itertools.product(one.of("Deployment"), other.workloads()):
        assert not mine["spec"]["selector"]["matchLabels"].items() <= theirs.labels.items()


@pytest.mark.parametrize(
    ("release", "server"), [("orders", "orders-jobqueue-server"), ("x" * 53, "x" * 30 + "-server")]
)
def test_names_come_from_the_release_when_none_is_given_and_are_never_too_long(
    helm: Helm, release: str, server: str
) -> None:
    pool = {"name": "p" * 20, "handlers": ["myapp_jobs"]}
    values = over(example("production"), {"fullnameOverride": "", "pools": [pool]})
    manifests = helm.render(values, name=release)
    assert server in manifests.names("Deployment")
    assert max(len(name) for _, name in names_of(manifests)) <= 63
    assert _judged(manifests) == []


def test_the_programs_take_the_arguments_that_pods_give_them(helm: Helm) -> None:
    programs = {"jq-worker": worker.cli, "jq-migrate": server.cli}
    for workload in helm.render(example("production")).workloads():
        container = workload.main
        if "args" in container:
            # Raises on a flag that is not known or a value that cannot be.
            programs[container["name"]].make_context("it", list(container["args"]))


def test_large_numbers_arrive_in_full(helm: Helm) -> None:
    manifests = helm.render(over(MINIMAL, {"config": {"JQ_LIMITS_BATCH_BYTES": 33554432}}))
    assert manifests.named("ConfigMap", "jq-config")["data"]["JQ_LIMITS_BATCH_BYTES"] == "33554432"


def test_the_notes_name_what_was_installed_and_what_is_open(helm: Helm) -> None:
    open_, closed = (helm.texts(v)["NOTES.txt"] for v in (MINIMAL, example("production")))
    assert "gRPC is plaintext" in open_
    assert "gRPC is plaintext" not in closed
    assert "jq-worker-video: queues video-high, video; scaled by keda" in closed


def test_a_package_holds_all_that_is_rendered_and_no_example(helm: Helm, tmp_path: Path) -> None:
    archive = helm.package(tmp_path)
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert not [name for name in names if "/ci/" in name]
    assert helm.texts(example("production"), chart=archive) == helm.texts(example("production"))


def test_rules_and_dashboards_are_the_files_that_kustomize_has(helm: Helm) -> None:
    manifests, home = helm.render(over(MINIMAL, WATCHED)), K8S / "components" / "monitoring"
    rules = yaml.safe_load((home / "rules.yaml").read_text(encoding="utf-8"))
    assert manifests.named("PrometheusRule", "jq-rules")["spec"] == rules
    files = {path.name: path.read_text("utf-8") for path in home.glob("dashboards/*.json")}
    data = manifests.named("ConfigMap", "jq-dashboards")["data"]
    assert {name: json.loads(text) for name, text in data.items()} == {
        name: json.loads(text) for name, text in files.items()
    }
    assert sum(map(len, data.values())) < _LARGEST_CONFIG_MAP
