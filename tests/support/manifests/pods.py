"""Rules for every pod: who it runs as, what it may use, how it is probed and ended."""

from collections.abc import Iterator

from tests.support.manifests.model import Manifests, Object, Workload

_PATHS = {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}


def insecure(manifests: Manifests) -> Iterator[str]:
    """Yield what the restricted pod security standard, or ours beyond it, refuses."""
    for workload in manifests.workloads():
        pod = workload.pod.get("securityContext") or {}
        if pod.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{workload}: no RuntimeDefault seccomp profile"
        if pod.get("runAsNonRoot") is not True or not pod.get("runAsUser"):
            yield f"{workload}: may run as root"
        if any(workload.pod.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC")):
            yield f"{workload}: shares something with its node"
        if any("hostPath" in volume for volume in workload.pod.get("volumes", ())):
            yield f"{workload}: mounts a path of its node"
        if workload.pod.get("enableServiceLinks") is not False:
            yield f"{workload}: gets an environment made of services"
        for container in workload.containers:
            yield from _insecure_container(workload, container)


def _insecure_container(workload: Workload, container: Object) -> Iterator[str]:
    name, context = f"{workload} {container['name']}", container.get("securityContext") or {}
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: may gain privileges"
    if context.get("readOnlyRootFilesystem") is not True:
        yield f"{name}: may write to its image"
    if context.get("capabilities") != {"drop": ["ALL"]}:
        yield f"{name}: keeps capabilities"
    if context.get("privileged") or context.get("runAsUser") == 0:
        yield f"{name}: is privileged"


def unbounded(manifests: Manifests) -> Iterator[str]:
    """Yield containers without requests or a limit of memory, and those with one of CPU."""
    for workload in manifests.workloads():
        for container in workload.containers:
            resources = container.get("resources") or {}
            missing = {"cpu", "memory"} - (resources.get("requests") or {}).keys()
            if missing:
                yield f"{workload} {container['name']}: requests no {' or '.join(sorted(missing))}"
            limits = resources.get("limits") or {}
            if "memory" not in limits:
                yield f"{workload} {container['name']}: has no limit of memory"
            if "cpu" in limits:
                yield f"{workload} {container['name']}: a limit of CPU makes it late"


def unpinned(manifests: Manifests) -> Iterator[str]:
    """Yield images without a tag that stays what it is."""
    for workload in manifests.workloads():
        for container in workload.containers:
            image: str = container["image"]
            tag = image.rsplit("/", 1)[-1].partition(":")[2]
            if not tag or tag.startswith("latest"):
                yield f"{workload} {container['name']}: {image} is not pinned"


def unprobed(manifests: Manifests) -> Iterator[str]:
    """Yield programs of ours without a probe, or with one that asks for the wrong thing."""
    for workload in [*manifests.component("server"), *manifests.component("worker")]:
        ports = workload.ports()
        for probe, path in _PATHS.items():
            ask = (workload.main.get(probe) or {}).get("httpGet") or {}
            if ask.get("path") != path:
                yield f"{workload}: {probe} does not ask {path}"
            elif ask.get("port") != "health" or "health" not in ports:
                yield f"{workload}: {probe} does not ask the port `health`"


def lost_ports(manifests: Manifests) -> Iterator[str]:
    """Yield probes of any pod that name a port which it does not have."""
    for workload in manifests.workloads():
        for container in workload.containers:
            known = {port["name"] for port in container.get("ports", ())}
            for probe in _PATHS:
                asked = (container.get(probe) or {}).get("httpGet", {}).get("port")
                if isinstance(asked, str) and asked not in known:
                    yield f"{workload}: {probe} asks for the port {asked}, which is not there"


def tokens(manifests: Manifests) -> Iterator[str]:
    """Yield pods that hold a token of the API server and have no use for it."""
    bound = {
        subject["name"]
        for binding in manifests.of("RoleBinding")
        for subject in binding["subjects"]
        if subject["kind"] == "ServiceAccount"
    }
    workers = manifests.component("worker")
    for workload in manifests.workloads():
        wants = workload.pod.get("serviceAccountName") in bound and workload in workers
        if wants != (workload.pod.get("automountServiceAccountToken") is not False):
            yield f"{workload}: {'lacks its' if wants else 'mounts a'} token of the API server"
