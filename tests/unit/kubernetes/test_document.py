"""What docs/scale-in.md tells people to apply is what a worker needs."""

import re
from pathlib import Path
from typing import Any

import yaml

from jobqueue.config.keys import variable_of
from jobqueue.kubernetes.pod import find_pod
from tests.support.kubernetes_api import Cluster

TEXT = (Path(__file__).parents[3] / "docs" / "scale-in.md").read_text(encoding="utf-8")
MANIFESTS: list[Any] = [
    manifest
    for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    for manifest in yaml.safe_load_all(block)
]


def test_the_role_allows_one_verb_and_is_bound_to_the_workers_account() -> None:
    role, binding, template = MANIFESTS
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (account,) = binding["subjects"]
    assert account["name"] == template["spec"]["serviceAccountName"]
    assert {account["namespace"], binding["metadata"]["namespace"]} == {"jobqueue"}


def test_the_pod_gets_the_variables_that_are_looked_for(kube: Cluster) -> None:
    (container,) = MANIFESTS[-1]["spec"]["containers"]
    fields = {"metadata.name": "w-1", "metadata.namespace": "jobqueue"}
    env = {
        item["name"]: item.get("value") or fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
        for item in container["env"]
    }
    assert env.pop(variable_of("worker.pod_deletion_cost")) == "true"
    by_kubernetes = {k: v for k, v in kube.env().items() if k.startswith("KUBERNETES_")}
    pod = find_pod(env | by_kubernetes, kube.folder)
    assert (pod.name, pod.namespace) == ("w-1", "jobqueue")
