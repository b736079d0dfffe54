"""Kubernetes objects as they would be applied, and easy questions about them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

# In C where it was built so: a rendering is a thousand lines, and there are many.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Object = dict[str, Any]
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Workload:
    """Whatever makes pods: a Deployment, a StatefulSet, a Job."""

    kind: str
    name: str
    namespace: str
    spec: Object

    @property
    def labels(self) -> Labels:
        """Return the labels of its pods."""
        found: Labels = self.spec["template"]["metadata"].get("labels", {})
        return found

    @property
    def pod(self) -> Object:
        """Return the specification of its pods."""
        found: Object = self.spec["template"]["spec"]
        return found

    @property
    def containers(self) -> list[Object]:
        """Return all containers, those that run first too."""
        return [*self.pod.get("initContainers", ()), *self.pod["containers"]]

    @property
    def main(self) -> Object:
        """Return the container that a workload is about."""
        found: Object = self.pod["containers"][0]
        return found

    def ports(self) -> dict[str, int]:
        """Return the container ports by name."""
        return {
            port["name"]: port["containerPort"]
            for container in self.containers
            for port in container.get("ports", ())
        }

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Manifests:
    """All objects of one rendering."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self.objects = objects

    @classmethod
    def parse(cls, text: str) -> "Manifests":
        """Read what a renderer printed."""
        return cls([item for item in yaml.load_all(text, _Loader) if item])

    def of(self, *kinds: str) -> list[Object]:
        """Return the objects of these kinds."""
        return [item for item in self.objects if item["kind"] in kinds]

    def named(self, kind: str, name: str) -> Object:
        """Return one object. Raises LookupError when there is none."""
        for item in self.of(kind):
            if item["metadata"]["name"] == name:
                return item
        raise LookupError(f"{kind}/{name}")

    def names(self, kind: str) -> set[str]:
        """Return the names of a kind."""
        return {item["metadata"]["name"] for item in self.of(kind)}

    def workloads(self) -> list[Workload]:
        """Return everything that makes pods."""
        return [
            Workload(
                item["kind"],
                item["metadata"]["name"],
                item["metadata"].get("namespace", ""),
                item["spec"],
            )
            for item in self.of("Deployment", "StatefulSet", "DaemonSet", "Job")
        ]

    def workload(self, name: str) -> Workload:
        """Return one of them. Raises LookupError when there is none."""
        for workload in self.workloads():
            if workload.name == name:
                return workload
        raise LookupError(name)

    def component(self, component: str) -> list[Workload]:
        """Return the workloads of a part of ours: `server`, `worker`, `migrate`."""
        label = "app.kubernetes.io/component"
        return [w for w in self.workloads() if w.labels.get(label) == component]


def name_of(item: Object) -> str:
    """Return how a fault names an object."""
    return f"{item['kind']}/{item['metadata']['name']}"


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Tell whether a label selector takes these labels. An empty one takes all, None nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_meets(rule, labels) for rule in selector.get("matchExpressions") or ())


def _meets(rule: Mapping[str, Any], labels: Labels) -> bool:
    value, key = labels.get(rule["key"]), rule["key"]
    match rule["operator"]:
        case "In":
            return value in rule["values"]
        case "NotIn":
            return value not in rule["values"]
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise ValueError(other)


def referenced(value: object, key: str) -> Iterator[Object]:
    """Yield every mapping that stands under a key, at any depth."""
    if isinstance(value, Mapping):
        for name, inside in value.items():
            if name == key and isinstance(inside, Mapping):
                yield dict(inside)
            yield from referenced(inside, key)
    elif isinstance(value, list):
        for inside in value:
            yield from referenced(inside, key)
