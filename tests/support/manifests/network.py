"""Who may connect to whom by the network policies, as a network plugin would judge."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from tests.support.manifests.model import Labels, Manifests, Object, Workload, selects

OURS = "jobqueue"


@dataclass(frozen=True, slots=True)
class Peer:
    """One end of a connection: a pod of some namespace, or an address outside of the cluster."""

    name: str
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    namespace_labels: Labels = field(default_factory=dict)
    address: str = "10.244.0.9"
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edge:
    """A connection that is needed, or must not come about."""

    source: Peer
    target: Peer
    port: int
    protocol: str = "TCP"

    def __str__(self) -> str:
        return f"{self.source.name} to {self.target.name}:{self.port}"


def pod_in(namespace: str, name: str, **labels: str) -> Peer:
    """Return a pod of somebody else."""
    known = {"kubernetes.io/metadata.name": namespace}
    return Peer(name, namespace, labels, known)


def peer_of(workload: Workload) -> Peer:
    """Return a pod of a workload of ours."""
    known = {"kubernetes.io/metadata.name": workload.namespace}
    name = str(workload)
    return Peer(name, workload.namespace, workload.labels, known, ports=workload.ports())


def passes(manifests: Manifests, edge: Edge) -> bool:
    """Tell whether the policies of both ends let a connection through."""
    leaves = _passes(manifests, edge, edge.source, edge.target, "Egress")
    return leaves and _passes(manifests, edge, edge.target, edge.source, "Ingress")


def _passes(manifests: Manifests, edge: Edge, here: Peer, there: Peer, way: str) -> bool:
    policies = [
        policy
        for policy in manifests.of("NetworkPolicy")
        if policy["metadata"].get("namespace") == here.namespace
        and selects(policy["spec"]["podSelector"], here.labels)
        and way in policy["spec"]["policyTypes"]
    ]
    if not policies:
        return True
    side = "to" if way == "Egress" else "from"
    return any(
        _takes_peer(rule.get(side), there, here.namespace) and _takes_port(rule.get("ports"), edge)
        for policy in policies
        for rule in policy["spec"].get(way.lower(), ())
    )


def _takes_peer(peers: list[Object] | None, peer: Peer, namespace: str) -> bool:
    return peers is None or any(_is_meant(item, peer, namespace) for item in peers)


def _is_meant(item: Mapping[str, Any], peer: Peer, namespace: str) -> bool:
    if "ipBlock" in item:
        return ip_address(peer.address) in ip_network(item["ipBlock"]["cidr"])
    if not peer.namespace:
        return False
    if "namespaceSelector" in item:
        inside = selects(item["namespaceSelector"], peer.namespace_labels)
    else:
        inside = peer.namespace == namespace
    return inside and selects(item.get("podSelector", {}), peer.labels)


def _takes_port(ports: list[Object] | None, edge: Edge) -> bool:
    return ports is None or any(_is_port(item, edge) for item in ports)


def _is_port(item: Mapping[str, Any], edge: Edge) -> bool:
    if item.get("protocol", "TCP") != edge.protocol:
        return False
    low = item["port"]
    if isinstance(low, str):
        return edge.target.ports.get(low) == edge.port
    return bool(low <= edge.port <= item.get("endPort", low))


def cut_off(manifests: Manifests) -> Iterator[str]:
    """Yield connections that the programs need and the policies refuse."""
    for edge in needed(manifests):
        if not passes(manifests, edge):
            yield f"{edge} is refused, and needed"


def laid_open(manifests: Manifests) -> Iterator[str]:
    """Yield connections that nobody needs and the policies let through."""
    for edge in unwanted(manifests):
        if passes(manifests, edge):
            yield f"{edge} is open to those who do not need it"


def _programs(manifests: Manifests, *components: str) -> list[Peer]:
    return [peer_of(w) for name in components for w in manifests.component(name)]


def needed(manifests: Manifests) -> Iterator[Edge]:
    """Yield what must come about for the programs to work."""
    dns = pod_in("kube-system", "DNS", **{"k8s-app": "kube-dns"})
    everyone = _programs(manifests, "server", "worker", "migrate")
    for peer in everyone:
        yield from (Edge(peer, dns, 53, protocol) for protocol in ("UDP", "TCP"))
        yield from (Edge(peer, end, 5432) for end in _ends(manifests, "postgres"))
    for server in _programs(manifests, "server"):
        yield from (Edge(server, end, 6379) for end in _ends(manifests, "redis"))
        yield from (Edge(server, end, 9092) for end in _ends(manifests, "kafka"))
        yield from (Edge(worker, server, 50051) for worker in _programs(manifests, "worker"))
        yield Edge(_application(), server, 50051)
    prometheus = pod_in("monitoring", "Prometheus")
    for program in _programs(manifests, "server", "worker"):
        yield Edge(prometheus, program, program.ports["metrics"])
    yield from _of_keda(manifests)
    yield from _of_scale_in(manifests)


def _of_keda(manifests: Manifests) -> Iterator[Edge]:
    keda = pod_in("keda", "KEDA", app="keda-operator")
    for server in _programs(manifests, "server"):
        if manifests.of("ScaledObject"):
            yield Edge(keda, server, server.ports["scaler"])


def _of_scale_in(manifests: Manifests) -> Iterator[Edge]:
    """Yield the ways to the API server: by its Service, and by the address behind it."""
    for workload in manifests.component("worker"):
        if workload.pod.get("automountServiceAccountToken"):
            server = Peer("the API server", address="10.0.0.1")
            yield from (Edge(peer_of(workload), server, port) for port in (443, 6443))


def _application() -> Peer:
    labels = {"kubernetes.io/metadata.name": "shop", "jobqueue-client": "true"}
    return Peer("an application", "shop", {"app": "shop"}, labels)


def _ends(manifests: Manifests, name: str) -> list[Peer]:
    """Return a service of the installation itself, or one outside of the cluster."""
    inside = [peer_of(w) for w in manifests.workloads() if w.name == name]
    return inside or [Peer(f"{name} outside", address="203.0.113.7")]


def unwanted(manifests: Manifests) -> Iterator[Edge]:
    """Yield what strangers could try, and programs that were taken over."""
    stranger = pod_in("other", "a stranger")
    outside = Peer("the internet", address="203.0.113.7")
    for program in _programs(manifests, "server", "worker", "migrate"):
        yield from (Edge(stranger, program, port) for port in program.ports.values())
        yield Edge(program, outside, 22)
    for server in _programs(manifests, "server"):
        yield Edge(pod_in("monitoring", "Prometheus"), server, 50051)
        yield Edge(_application(), server, server.ports["metrics"])
        if "scaler" in server.ports:
            yield Edge(_application(), server, server.ports["scaler"])
    for worker in _programs(manifests, "worker"):
        yield from (Edge(worker, end, 9092) for end in _ends(manifests, "kafka"))
    for end in (e for name in ("postgres", "redis", "kafka") for e in _ends(manifests, name)):
        if end.namespace:
            yield from (Edge(stranger, end, port) for port in end.ports.values())
