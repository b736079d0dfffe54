"""Each rule for manifests finds the fault that it is there for: planted here, one at a time."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.support.manifests import check, network
from tests.support.manifests.model import Manifests, Object
from tests.support.manifests.render import K8S, combination, kustomize
from tests.support.manifests.schemas import custom_faults

Plant = Callable[[Manifests], object]


def pod(manifests: Manifests, name: str = "jq-server") -> Object:
    return manifests.workload(name).pod


def main(manifests: Manifests, name: str = "jq-server") -> Object:
    return manifests.workload(name).main


def spec(manifests: Manifests, kind: str, name: str = "jq-server") -> Object:
    found: Object = manifests.named(kind, name)["spec"]
    return found


def _rule(manifests: Manifests, policy: str, way: str, number: int) -> Object:
    found: Object = spec(manifests, "NetworkPolicy", policy)[way][number]
    return found


def config(manifests: Manifests, name: str = "jq-config") -> dict[str, Any]:
    (found,) = (
        item["data"]
        for item in manifests.of("ConfigMap")
        if item["metadata"]["name"].startswith(f"{name}-")
    )
    return cast("dict[str, Any]", found)


def remove(manifests: Manifests, kind: str, *names: str) -> Manifests:
    manifests.objects = [
        item
        for item in manifests.objects
        if item["kind"] != kind or item["metadata"]["name"] not in names
    ]
    return manifests


PLANTED: dict[str, tuple[Plant, str]] = {
    "an unknown field": (
        lambda m: pod(m).update(hostPids=True),
        "Additional properties are not allowed",
    ),
    "a field of the wrong type": (
        lambda m: spec(m, "HorizontalPodAutoscaler").update(maxReplicas="10"),
        "is not of type 'integer'",
    ),
    "root": (lambda m: pod(m)["securityContext"].update(runAsNonRoot=False), "may run as root"),
    "no seccomp": (lambda m: pod(m)["securityContext"].pop("seccompProfile"), "no RuntimeDefault"),
    "the network of the node": (lambda m: pod(m).update(hostNetwork=True), "with its node"),
    "a path of the node": (
        lambda m: pod(m)["volumes"].append({"name": "node", "hostPath": {"path": "/"}}),
        "mounts a path of its node",
    ),
    "service links": (lambda m: pod(m).pop("enableServiceLinks"), "made of services"),
    "privilege escalation": (
        lambda m: main(m)["securityContext"].pop("allowPrivilegeEscalation"),
        "may gain privileges",
    ),
    "a writable root": (
        lambda m: main(m)["securityContext"].update(readOnlyRootFilesystem=False),
        "may write to its image",
    ),
    "capabilities": (
        lambda m: main(m)["securityContext"].update(capabilities={"drop": ["ALL"], "add": ["X"]}),
        "keeps capabilities",
    ),
    "no requests": (lambda m: main(m)["resources"].pop("requests"), "requests no cpu or memory"),
    "no memory limit": (
        lambda m: main(m)["resources"].pop("limits"),
        "has no limit of memory",
    ),
    "a CPU limit": (
        lambda m: main(m)["resources"]["limits"].update(cpu="1"),
        "a limit of CPU",
    ),
    "latest": (lambda m: main(m).update(image="jobqueue/server:latest"), "is not pinned"),
    "no tag": (lambda m: main(m).update(image="host:5000/jobqueue/server"), "is not pinned"),
    "no startup probe": (lambda m: main(m).pop("startupProbe"), "startupProbe does not ask"),
    "a liveness probe that asks the database": (
        lambda m: main(m)["livenessProbe"]["httpGet"].update(path="/readyz"),
        "livenessProbe does not ask /healthz",
    ),
    "a probe of no port": (
        lambda m: main(m)["ports"].pop(2),
        "asks for the port health, which is not there",
    ),
    "a token": (
        lambda m: pod(m).update(automountServiceAccountToken=True),
        "mounts a token",
    ),
    "a config map nobody makes": (
        lambda m: main(m)["envFrom"][0]["configMapRef"].update(name="other"),
        "there is no config map other",
    ),
    "a secret nobody makes": (
        lambda m: main(m)["envFrom"][2]["secretRef"].update(name="other"),
        "there is no secret other",
    ),
    "a service account nobody makes": (
        lambda m: pod(m).update(serviceAccountName="other"),
        "there is no service account other",
    ),
    "a volume nobody makes": (lambda m: pod(m)["volumes"].clear(), "there is no volume tmp"),
    "a selector beside its pods": (
        lambda m: spec(m, "Deployment")["selector"]["matchLabels"].update({"a": "b"}),
        "its selector does not take its pods",
    ),
    "a spread beside its pods": (
        lambda m: pod(m)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"].update(
            {"a": "b"}
        ),
        "is spread by labels",
    ),
    "a budget of nothing": (
        lambda m: spec(m, "PodDisruptionBudget")["selector"]["matchLabels"].update({"a": "b"}),
        "PodDisruptionBudget/jq-server: selects no pod",
    ),
    "no budget": (
        lambda m: remove(m, "PodDisruptionBudget", "jq-worker"),
        "Deployment/jq-worker: has no disruption budget",
    ),
    "a budget that blocks": (
        lambda m: spec(m, "PodDisruptionBudget").update(maxUnavailable=0),
        "no node could be drained",
    ),
    "a service of nothing": (
        lambda m: spec(m, "Service")["selector"].update({"a": "b"}),
        "Service/jq-server: selects no pod",
    ),
    "a service port nobody has": (
        lambda m: spec(m, "Service")["ports"][0].update(targetPort="other"),
        "has no port other",
    ),
    "another namespace": (
        lambda m: m.named("Service", "jq-server")["metadata"].update(namespace="other"),
        "is in no namespace of ours",
    ),
    "a scaler of nothing": (
        lambda m: spec(m, "HorizontalPodAutoscaler")["scaleTargetRef"].update(name="other"),
        "there is nothing of that name to scale",
    ),
    "two scalers": (
        lambda m: spec(m, "HorizontalPodAutoscaler")["scaleTargetRef"].update(name="jq-worker"),
        "Deployment/jq-worker: has 2 scalers",
    ),
    "no scaler": (
        lambda m: remove(m, "HorizontalPodAutoscaler", "jq-worker"),
        "Deployment/jq-worker: has 0 scalers",
    ),
    "replicas beside a scaler": (
        lambda m: spec(m, "Deployment").update(replicas=2),
        "would undo its scaler",
    ),
    "a target that is not the room of a pod": (
        lambda m: main(m, "jq-worker").update(args=["--queues=default", "--concurrency=20"]),
        "counts on 10 jobs a pod, not 20",
    ),
    "a scaler of other queues": (
        lambda m: main(m, "jq-worker").update(args=["--queues=mail", "--concurrency=10"]),
        "watches ['default'], not ['mail']",
    ),
    "an unknown variable": (
        lambda m: config(m).update(JQ_LEASE_SECONDS="3"),
        "unknown environment variables are ignored: JQ_LEASE_SECONDS",
    ),
    "a setting out of range": (
        lambda m: config(m).update(JQ_LEASE_DURATION_S="-1"),
        "lease.duration_s",
    ),
    "a drain longer than the pod may take": (
        lambda m: config(m, "jq-worker-config").update(JQ_WORKER_SHUTDOWN_GRACE_PERIOD_S="600"),
        "Deployment/jq-worker: needs 635 s to end, and is killed before",
    ),
    "a preStop that eats the grace": (
        lambda m: main(m)["lifecycle"]["preStop"]["sleep"].update(seconds=30),
        "Deployment/jq-server: needs 65 s to end",
    ),
    "a setting that needs a secret the pod does not get": (
        lambda m: config(m).update(
            JQ_KAFKA_SECURITY_PROTOCOL="SASL_SSL",
            JQ_KAFKA_SASL_MECHANISM="PLAIN",
            JQ_KAFKA_SASL_USERNAME="jq",
        ),
        "Deployment/jq-worker: kafka.sasl.password: is needed by PLAIN",
    ),
    "a port that a setting moves": (
        lambda m: config(m, "jq-server-config").update(JQ_GRPC_PORT="50055"),
        "its port grpc is 50055, not 50051",
    ),
}


PLANTED_IN_COMPONENTS: dict[str, tuple[Plant, str]] = {
    "a monitor of a port nobody has": (
        lambda m: spec(m, "PodMonitor", "jq-worker")["podMetricsEndpoints"][0].update(port="grpc"),
        "PodMonitor/jq-worker: Deployment/jq-worker has no port grpc",
    ),
    "a monitor of a port the service lacks": (
        lambda m: spec(m, "ServiceMonitor")["endpoints"][0].update(port="health"),
        "ServiceMonitor/jq-server: Service/jq-server has no port health",
    ),
    "a monitor of nothing": (
        lambda m: spec(m, "ServiceMonitor")["selector"]["matchLabels"].update({"a": "b"}),
        "ServiceMonitor/jq-server: selects no service",
    ),
    "a certificate nobody issues": (
        lambda m: remove(m, "Certificate", "jq-server"),
        "Deployment/jq-server: there is no secret jq-server-tls",
    ),
    "KEDA shut out": (
        lambda m: remove(m, "NetworkPolicy", "jq-server-scaler"),
        "KEDA to Deployment/jq-server:50052 is refused",
    ),
    "applications at the scaler": (
        lambda m: _rule(m, "jq-server-scaler", "ingress", 0).pop("from"),
        "an application to Deployment/jq-server:50052 is open",
    ),
    "the API server shut out": (
        lambda m: remove(m, "NetworkPolicy", "jq-worker-api-server"),
        "Deployment/jq-worker to the API server:6443 is refused",
    ),
    "a right without its token": (
        lambda m: pod(m, "jq-worker").update(automountServiceAccountToken=False),
        "Deployment/jq-worker: lacks its token",
    ),
    "a KEDA target that is not the room of a pod": (
        lambda m: main(m, "jq-worker").update(args=["--queues=default", "--concurrency=20"]),
        "ScaledObject/jq-worker: counts on 10 jobs a pod, not 20",
    ),
}


@pytest.mark.parametrize(
    ("plant", "expected"), PLANTED_IN_COMPONENTS.values(), ids=PLANTED_IN_COMPONENTS.keys()
)
def test_a_fault_planted_in_a_component_is_found(plant: Plant, expected: str) -> None:
    manifests = combination(["keda", "monitoring", "mtls", "scale-in"])
    plant(manifests)
    found = check.faults(manifests)
    assert [fault for fault in found if expected in fault], found


@pytest.mark.parametrize(("plant", "expected"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_fault_is_found(plant: Plant, expected: str) -> None:
    manifests = kustomize(K8S)
    plant(manifests)
    found = check.faults(manifests)
    assert [fault for fault in found if expected in fault], found


CUT: dict[str, tuple[Plant, str]] = {
    "no DNS": (lambda m: remove(m, "NetworkPolicy", "allow-dns"), "to DNS:53"),
    "no way to PostgreSQL": (
        lambda m: _rule(m, "jq-migrate", "egress", 0)["ports"].pop(0),
        "Job/jq-migrate to postgres outside:5432",
    ),
    "no way to Kafka": (
        lambda m: _rule(m, "jq-server", "egress", 0)["ports"].pop(3),
        "Deployment/jq-server to kafka outside:9092",
    ),
    "applications shut out": (
        lambda m: _rule(m, "jq-server", "ingress", 0)["from"].pop(2),
        "an application to Deployment/jq-server:50051",
    ),
    "remote workers shut out": (
        lambda m: _rule(m, "jq-worker", "egress", 1)["ports"].clear(),
        "Deployment/jq-worker to Deployment/jq-server:50051",
    ),
    "Prometheus shut out": (
        lambda m: _rule(m, "jq-worker", "ingress", 0)["ports"][0].update(port="health"),
        "Prometheus to Deployment/jq-worker:9091",
    ),
}

OPENED: dict[str, tuple[Plant, str]] = {
    "no denial": (
        lambda m: remove(m, "NetworkPolicy", "default-deny", "allow-dns", "jq-worker"),
        "a stranger to Deployment/jq-worker:9091",
    ),
    "everyone let in": (
        lambda m: _rule(m, "jq-server", "ingress", 0).pop("from"),
        "a stranger to Deployment/jq-server:50051",
    ),
    "everything let out": (
        lambda m: _rule(m, "jq-worker", "egress", 0).pop("ports"),
        "Deployment/jq-worker to the internet:22",
    ),
}


@pytest.mark.parametrize(("plant", "expected"), CUT.values(), ids=CUT.keys())
def test_a_needed_connection_that_policies_refuse_is_found(plant: Plant, expected: str) -> None:
    manifests = kustomize(K8S)
    plant(manifests)
    assert [fault for fault in network.cut_off(manifests) if expected in fault]


@pytest.mark.parametrize(("plant", "expected"), OPENED.values(), ids=OPENED.keys())
def test_an_open_door_is_found(plant: Plant, expected: str) -> None:
    manifests = kustomize(K8S)
    plant(manifests)
    assert [fault for fault in network.laid_open(manifests) if expected in fault]


def _scaled_object(**changes: object) -> Object:
    trigger = {"type": "external-push", "metadata": {"scalerAddress": "jq-server:50052"}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "jq-worker", "labels": {"any": "label"}},
        "spec": {"scaleTargetRef": {"name": "jq-worker"}, "triggers": [trigger], **changes},
    }


def test_a_fault_of_a_custom_resource_is_found() -> None:
    objects = [
        _scaled_object(),
        _scaled_object(maxReplicaCounts=3),
        _scaled_object(maxReplicaCount="3"),
        {"apiVersion": "keda.sh/v1alpha1", "kind": "Scaled", "metadata": {"name": "other"}},
    ]
    assert custom_faults(objects) == [
        "ScaledObject/jq-worker: unknown field /spec/maxReplicaCounts",
        "ScaledObject/jq-worker: data/spec/maxReplicaCount must be integer",
        "Scaled/other: no schema of keda.sh/v1alpha1 Scaled",
    ]
