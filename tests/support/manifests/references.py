"""Names that objects use of each other exist: nothing waits for what nobody makes."""

from collections.abc import Collection, Iterator

from tests.support.manifests.model import Manifests, Object, Workload, name_of, referenced, selects

_ENV, _VOLUME = ("configMapRef", "configMapKeyRef"), ("secretRef", "secretKeyRef")


def dangling(manifests: Manifests, outside: Collection[str]) -> Iterator[str]:
    """Yield config maps, secrets, keys and accounts that pods name and nobody makes.

    ``outside`` are the secrets that an operator makes by hand.
    """
    maps, made = manifests.names("ConfigMap"), manifests.names("Secret")
    issued = {item["spec"]["secretName"] for item in manifests.of("Certificate")}
    secrets = made | issued | set(outside)
    for workload in manifests.workloads():
        for name in _config_maps(workload.pod) - maps:
            yield f"{workload}: there is no config map {name}"
        for name in _secrets(workload.pod) - secrets:
            yield f"{workload}: there is no secret {name}"
        account = workload.pod.get("serviceAccountName", "default")
        if account not in manifests.names("ServiceAccount"):
            yield f"{workload}: there is no service account {account}"
        yield from _unmounted(workload)


def _config_maps(pod: Object) -> set[str]:
    used = {ref["name"] for key in _ENV for ref in referenced(pod, key)}
    return used | {ref["name"] for ref in referenced(pod, "configMap")}


def _secrets(pod: Object) -> set[str]:
    used = {ref["name"] for key in _VOLUME for ref in referenced(pod, key)}
    mounted = referenced(pod, "secret")
    return used | {str(ref.get("secretName", ref.get("name"))) for ref in mounted}


def _unmounted(workload: Workload) -> Iterator[str]:
    claims = workload.spec.get("volumeClaimTemplates", ())
    volumes = {volume["name"] for volume in workload.pod.get("volumes", ())}
    volumes |= {claim["metadata"]["name"] for claim in claims}
    for container in workload.containers:
        for mount in container.get("volumeMounts", ()):
            if mount["name"] not in volumes:
                yield f"{workload}: there is no volume {mount['name']}"


def unmatched(manifests: Manifests) -> Iterator[str]:
    """Yield selectors that take no pod, or not the pods of their own workload."""
    workloads = manifests.workloads()
    for workload in workloads:
        selector = workload.spec.get("selector")
        if workload.kind != "Job" and not selects(selector, workload.labels):
            yield f"{workload}: its selector does not take its pods"
        for spread in workload.pod.get("topologySpreadConstraints", ()):
            if not selects(spread["labelSelector"], workload.labels):
                yield f"{workload}: is spread by labels it does not have"
    for item in manifests.of("PodDisruptionBudget", "PodMonitor"):
        if not any(selects(item["spec"]["selector"], w.labels) for w in workloads):
            yield f"{name_of(item)}: selects no pod"
    for item in manifests.of("ServiceMonitor"):
        services = manifests.of("Service")
        if not any(selects(item["spec"]["selector"], _labels(s)) for s in services):
            yield f"{name_of(item)}: selects no service"


def _labels(item: Object) -> dict[str, str]:
    found: dict[str, str] = item["metadata"].get("labels", {})
    return found


def closed_ports(manifests: Manifests) -> Iterator[str]:
    """Yield services and monitors whose port no pod behind them has."""
    for service in manifests.of("Service"):
        behind = [
            workload
            for workload in manifests.workloads()
            if selects({"matchLabels": service["spec"]["selector"]}, workload.labels)
        ]
        if not behind:
            yield f"{name_of(service)}: selects no pod"
        for port in service["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            for workload in behind:
                if target not in {*workload.ports(), *workload.ports().values()}:
                    yield f"{name_of(service)}: {workload} has no port {target}"
    yield from _unscraped(manifests)


def _unscraped(manifests: Manifests) -> Iterator[str]:
    pods = [(str(w), w.labels, set(w.ports())) for w in manifests.workloads()]
    services = [
        (name_of(s), _labels(s), {port["name"] for port in s["spec"]["ports"]})
        for s in manifests.of("Service")
    ]
    for kind, ends, targets in (
        ("PodMonitor", "podMetricsEndpoints", pods),
        ("ServiceMonitor", "endpoints", services),
    ):
        for monitor in manifests.of(kind):
            asked = {end["port"] for end in monitor["spec"][ends]}
            for name, labels, ports in targets:
                if selects(monitor["spec"]["selector"], labels) and not asked <= ports:
                    yield f"{name_of(monitor)}: {name} has no port {min(asked - ports)}"


def homeless(manifests: Manifests) -> Iterator[str]:
    """Yield objects of a namespace that are not in the one that is made."""
    spaces = manifests.names("Namespace")
    cluster = {"Namespace", "ClusterRole", "ClusterRoleBinding", "ClusterIssuer"}
    for item in manifests.objects:
        if item["kind"] in cluster or not spaces:
            continue
        if item["metadata"].get("namespace") not in spaces:
            yield f"{name_of(item)}: is in no namespace of ours"
