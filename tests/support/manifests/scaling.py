"""Who decides how many pods there are: one scaler each, within bounds, on something that exists."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.manifests.model import Manifests, Object, Workload, name_of, selects

_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


def misscaled(manifests: Manifests) -> Iterator[str]:
    """Yield deployments with no scaler or two, and scalers of what does not exist."""
    deployments = manifests.names("Deployment")
    scaled = [item["spec"]["scaleTargetRef"]["name"] for item in manifests.of(*_SCALERS)]
    for item in manifests.of(*_SCALERS):
        if item["spec"]["scaleTargetRef"]["name"] not in deployments:
            yield f"{name_of(item)}: there is nothing of that name to scale"
    for workload in [*manifests.component("server"), *manifests.component("worker")]:
        if scaled.count(workload.name) != 1:
            yield f"{workload}: has {scaled.count(workload.name)} scalers instead of one"
        if "replicas" in workload.spec:
            yield f"{workload}: applying it again would undo its scaler"


def blocked_evictions(manifests: Manifests) -> Iterator[str]:
    """Yield budgets that would never let a pod go, and programs of ours without one."""
    budgets = manifests.of("PodDisruptionBudget")
    for budget in budgets:
        if budget["spec"].get("maxUnavailable") in {0, "0%", None}:
            yield f"{name_of(budget)}: no node could be drained"
    for workload in [*manifests.component("server"), *manifests.component("worker")]:
        if not any(selects(budget["spec"]["selector"], workload.labels) for budget in budgets):
            yield f"{workload}: has no disruption budget"


def miscounted(manifests: Manifests) -> Iterator[str]:
    """Yield scalers of workers that count on other room than a pod has, or watch other queues."""
    for workload in manifests.component("worker"):
        flags = flags_of(workload)
        room = int(flags.get("concurrency", "4")) * int(flags.get("processes", "1"))
        queues = set(flags.get("queues", "default").split(","))
        for scaler in manifests.of(*_SCALERS):
            if scaler["spec"]["scaleTargetRef"]["name"] != workload.name:
                continue
            for watched, target in _watched(scaler):
                if watched != queues:
                    yield f"{name_of(scaler)}: watches {sorted(watched)}, not {sorted(queues)}"
                if not math.isclose(target, room):
                    yield f"{name_of(scaler)}: counts on {target:g} jobs a pod, not {room}"


def flags_of(workload: Workload) -> Mapping[str, str]:
    """Return the flags that a program is started with."""
    pairs = (argument.removeprefix("--").partition("=") for argument in workload.main["args"])
    return {name: value for name, _, value in pairs}


def _watched(scaler: Object) -> Iterator[tuple[set[str], float]]:
    for metric in scaler["spec"].get("metrics", ()):
        if metric["type"] == "External":
            external = metric["external"]
            yield _queues(external["metric"]["selector"]), float(external["target"]["averageValue"])
    for trigger in scaler["spec"].get("triggers", ()):
        given = trigger["metadata"]
        if given.get("mode", "depth") == "depth":
            yield set(given["queues"].split(",")), float(given["targetPerReplica"])


def _queues(selector: Mapping[str, Any]) -> set[str]:
    named = {selector["matchLabels"]["queue"]} if "matchLabels" in selector else set()
    rules = (rule for rule in selector.get("matchExpressions", ()) if rule["key"] == "queue")
    return named.union(*(rule["values"] for rule in rules))
