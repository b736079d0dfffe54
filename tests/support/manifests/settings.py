"""The environment of every container of ours, read by the product's own loader."""

import base64
from collections.abc import Iterator, Mapping

from jobqueue.config.load import Loaded, load_settings
from jobqueue.config.ports import WORKER_PORTS
from jobqueue.errors import SettingsError
from tests.support.manifests.model import Manifests, Object, Workload

COMPONENTS = ("server", "worker", "migrate")
SECRETS: Mapping[str, Mapping[str, str]] = {
    "jq-secrets": {
        "JQ_DB_URL": "postgresql://jq_user:secret@db.example.com:5432/jobqueue",
        "JQ_REDIS_PASSWORD": "secret",
        "JQ_KAFKA_SASL_PASSWORD": "secret",
    },
    "jq-worker-secrets": {"JQ_DB_URL": "postgresql://jq_worker:secret@db.example.com/jobqueue"},
}
"""Secrets that operators make by hand, as README.md tells them to."""

_MARGIN_S = {"server": 5.0, "worker": 30.0}
_DEFAULT_PORTS = {
    "server": {"grpc": 50051, "metrics": 9090, "health": 8080},
    "worker": {key.removesuffix(".port"): port for key, port in WORKER_PORTS.defaults.items()},
}


def environment(
    manifests: Manifests, container: Object, secrets: Mapping[str, Mapping[str, str]] = SECRETS
) -> dict[str, str]:
    """Return the variables of a container as Kubernetes would set them."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            found |= _config(manifests, source["configMapRef"]["name"])
        else:
            found |= _secret(manifests, source["secretRef"]["name"], secrets)
    for item in container.get("env", ()):
        found[item["name"]] = _value(manifests, item, secrets)
    return found


def _value(manifests: Manifests, item: Object, secrets: Mapping[str, Mapping[str, str]]) -> str:
    if "value" in item:
        return str(item["value"])
    source = item["valueFrom"]
    if "secretKeyRef" in source:
        key = source["secretKeyRef"]
        return _secret(manifests, key["name"], secrets)[key["key"]]
    if "configMapKeyRef" in source:
        key = source["configMapKeyRef"]
        return _config(manifests, key["name"])[key["key"]]
    return str(source["fieldRef"]["fieldPath"])


def _config(manifests: Manifests, name: str) -> dict[str, str]:
    return dict(manifests.named("ConfigMap", name).get("data") or {})


def _secret(
    manifests: Manifests, name: str, secrets: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    if name in secrets:
        return dict(secrets[name])
    made = manifests.named("Secret", name)
    coded = made.get("data") or {}
    return {key: base64.b64decode(text).decode() for key, text in coded.items()} | dict(
        made.get("stringData") or {}
    )


def unsettled(
    manifests: Manifests, secrets: Mapping[str, Mapping[str, str]] = SECRETS
) -> Iterator[str]:
    """Yield settings that the product refuses, does not know or has doubts about."""
    for component in COMPONENTS:
        for workload in manifests.component(component):
            try:
                loaded = _load(manifests, workload, secrets)
            except SettingsError as error:
                yield f"{workload}: {error}"
            except LookupError as error:
                yield f"{workload}: there is no {error.args[0]}"
            else:
                yield from (f"{workload}: {line}" for line in loaded.warnings)
                yield from _disagreements(component, workload, loaded)


def _load(
    manifests: Manifests, workload: Workload, secrets: Mapping[str, Mapping[str, str]]
) -> Loaded:
    env = environment(manifests, workload.main, secrets)
    return load_settings(flags={}, env=env, path=None)


def _disagreements(component: str, workload: Workload, loaded: Loaded) -> Iterator[str]:
    """Yield what the pod says and the program does otherwise: times to end in, ports."""
    needed = _needed_s(component, workload, loaded)
    if workload.pod.get("terminationGracePeriodSeconds", 30) < needed:
        yield f"{workload}: needs {needed:g} s to end, and is killed before"
    ports = workload.ports()
    for name, default in _ports(component, loaded).items():
        if ports.get(name) != default:
            yield f"{workload}: its port {name} is {default}, not {ports.get(name)}"


def _needed_s(component: str, workload: Workload, loaded: Loaded) -> float:
    settings = loaded.settings
    waits = (workload.main.get("lifecycle") or {}).get("preStop", {}).get("sleep", {})
    before = float(waits.get("seconds", 0))
    if component == "server":
        return before + settings.server.shutdown_grace_period_s + _MARGIN_S[component]
    if component == "worker":
        worker = settings.worker
        grace = worker.shutdown_grace_period_s + worker.kill_grace_s
        return before + grace + _MARGIN_S[component]
    return 0.0


def _ports(component: str, loaded: Loaded) -> dict[str, int]:
    """Return the ports that a program listens on, by the name that its container gives them."""
    settings, ports = loaded.settings, dict(_DEFAULT_PORTS.get(component, {}))
    told = {
        "grpc": settings.grpc.port,
        "metrics": settings.metrics.port,
        "health": settings.health.port,
    }
    return {
        name: told[name] if f"{name}.port" in loaded.given else port for name, port in ports.items()
    }
