"""Values of the Helm chart: documented, refused when they are wrong, and none without effect."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from jobqueue.config.keys import RULES, SECRETS, VARIABLES, variable_of
from tests.support.helm import (
    EXAMPLES,
    ISSUED,
    KEDA,
    MINIMAL,
    Helm,
    Refused,
    Values,
    at,
    example,
    over,
)
from tests.support.manifests.render import ROOT
from tools.chart_values import CHART, Value, read_values, renewed

VALUES = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
PATHS = [value.path for value in VALUES]
SCHEMA: Mapping[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DIGEST = "sha256:" + "0" * 64

TIMED = {"worker": {"autoscaling": {"keda": {"time": {"mode": "drain"}}}}}
FAR = {"pools": [{"name": "far", "remote": True}]}
MUTUAL = over(ISSUED, {"server": {"scaler": {"enabled": True, "tls": "mutual"}}})
GIVEN = {
    "tls": {"enabled": True, "existingSecret": "a", "existingClientSecret": "b"},
    **FAR,
}
MONITORED = {"monitoring": {"monitors": True, "rules": True, "dashboards": True}}

# Where a value counts, for those that do not always; and a value other than the default, for those
# where none can be guessed.
WHERE: Mapping[str, Values] = {
    "secret": {"existingSecret": "", "config": {"JQ_DB_HOST": "db"}},
    "server.replicas": {"server": {"autoscaling": {"enabled": False}}},
    "server.scaler.tls": over(ISSUED, KEDA),
    "worker.autoscaling.minReplicas": KEDA,
    "worker.autoscaling.maxReplicas": KEDA,
    "worker.autoscaling.targetPerReplica": KEDA,
    "worker.autoscaling.behavior": KEDA,
    "worker.autoscaling.keda": KEDA,
    "worker.autoscaling.keda.time.target": over(KEDA, TIMED),
    "tls": over(ISSUED, FAR),
    "tls.existingSecret": GIVEN,
    "tls.existingClientSecret": GIVEN,
    "networkPolicy.scalerClients": KEDA,
    "monitoring.labels": MONITORED,
    "monitoring.dashboardLabels": MONITORED,
    "monitoring.interval": MONITORED,
}
OTHERS: Mapping[str, Any] = {
    "image.pullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "secret": {"JQ_DB_URL": "postgresql://db/jobqueue"},
    "config": {"JQ_LOGGING_LEVEL": "debug"},
    "server.scaler.tls": "mutual",
    "worker.queues": ["mail"],
    "worker.handlers": ["billing.jobs"],
    "worker.autoscaling.type": "hpa",
    "worker.autoscaling.keda.trigger": "external",
    "worker.autoscaling.keda.time.mode": "age",
    "worker.secretKeys": ["JQ_DB_PASSWORD"],
    "worker.podDisruptionBudget.maxUnavailable": 3,
    "pools": [{"name": "other"}],
    "tls.enabled": False,
    "tls.certManager.enabled": False,
    "tls.certManager.dnsNames": ["queue.example.com"],
    "tls.certManager.issuerRef": {"name": "other"},
    "tls.certManager.duration": "48h",
    "tls.certManager.renewBefore": "24h",
    "networkPolicy.dnsEgress": [{"ports": [{"port": 53}]}],
    "interval": "5s",
    "digest": DIGEST,
    "extraEnv": [{"name": "A", "value": "b"}],
    "resources": {"limits": {"memory": "3Gi"}},
    "tmpSizeLimit": "1Mi",
    "startup": {"periodSeconds": 9},
    "readiness": {"periodSeconds": 9},
    "liveness": {"periodSeconds": 9},
}


def _where(path: str) -> dict[str, Any]:
    """Return values with which a value counts: those of the nearest section that has some."""
    sections = [path.rsplit(".", count)[0] for count in range(path.count(".") + 1)]
    for section in sections:
        if section in WHERE:
            return over(MINIMAL, WHERE[section])
    return dict(MINIMAL)


def _other(value: Value) -> Any:
    """Return something else for a value: of its path, of its last name, or a guess by its type."""
    for known in (value.path, value.path.rpartition(".")[2]):
        if known in OTHERS:
            return OTHERS[known]
    if isinstance(value.default, bool):
        return not value.default
    if isinstance(value.default, int):
        return value.default + 1
    return _GUESSES[type(value.default)]


_GUESSES: Mapping[type, Any] = {
    str: "other",
    list: [{"key": "other"}],
    dict: {"other": "value"},
    type(None): 3,
}


def _outcome(helm: Helm, values: Values) -> object:
    """Return what values lead to: objects, or the word that they do not go together."""
    try:
        return helm.texts(values)
    except Refused as refused:
        if "these values cannot work" not in str(refused):
            raise
        return str(refused)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.path)
def test_every_value_changes_what_is_rendered(helm: Helm, value: Value) -> None:
    where = _where(value.path)
    changed = over(where, at(value.path, _other(value)))
    assert _outcome(helm, changed) != helm.texts(where)


def test_the_table_of_values_is_the_one_in_values_yaml() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    assert renewed(readme, VALUES) == readme, "run make chart-values"


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", (CHART / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (CHART / link).exists()] == []


def test_a_value_without_a_comment_is_found() -> None:
    with pytest.raises(ValueError, match=r"server\.replicas is not documented"):
        read_values("server:\n  replicas: 1\n")


@pytest.mark.parametrize("values", [MINIMAL, *map(example, EXAMPLES)])
def test_the_linter_has_nothing_to_say_but_that_there_is_no_icon(
    helm: Helm, values: Values
) -> None:
    assert [m["error"] for m in helm.lint(values)] == ["icon is recommended"]


def test_the_linter_speaks_up_when_there_is_a_reason(helm: Helm) -> None:
    assert len(helm.lint({"nonsense": 1})) > 1


def test_the_versions_of_the_chart_are_those_of_the_package(helm: Helm) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    server = helm.render().workload("jq-server")
    assert server.main["image"] == f"jobqueue/server:{project['version']}"
    label = f"jobqueue-{project['version']}"
    assert (
        helm.render().named("Service", "jq-server")["metadata"]["labels"]["helm.sh/chart"] == label
    )


# The schema.


def _sections() -> list[str]:
    return sorted({path.rpartition(".")[0] for path in PATHS})


@pytest.mark.parametrize("section", _sections())
def test_an_unknown_value_is_refused_in_every_section(helm: Helm, section: str) -> None:
    path = f"{section}.nonsense".removeprefix(".")
    with pytest.raises(Refused, match="nonsense"):
        helm.render(over(MINIMAL, at(path, 1)))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.path)
def test_a_value_of_another_type_is_refused(helm: Helm, value: Value) -> None:
    wrong: Any = [] if isinstance(value.default, dict) else {"a": "b"}
    place = "/".join(["", *value.path.split(".")])
    with pytest.raises(Refused, match=place):
        helm.render(over(_where(value.path), at(value.path, wrong)))


@pytest.mark.parametrize(
    "key", [p.removeprefix("worker.") for p in PATHS if p.startswith("worker.")]
)
def test_a_pool_takes_every_value_that_all_pools_have(helm: Helm, key: str) -> None:
    (value,) = (v for v in VALUES if v.path == f"worker.{key}")
    pool = {"name": "default", **at(key, _other(value))}
    where = {name: part for name, part in _where(value.path).items() if name != "pools"}
    where = over(where, {"server": {"scaler": {"enabled": True}}})
    assert _outcome(helm, over(where, {"pools": [pool]})) != helm.texts(where)


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"fullnameOverride": "Upper"}, "/fullnameOverride"),
        ({"pools": [{}]}, "/pools/0"),
        ({"pools": [{"name": "x" * 21}]}, "/pools/0/name"),
        ({"worker": {"name": "all"}}, "/worker/name"),
        ({"worker": {"queues": []}}, "/worker/queues"),
        ({"worker": {"queues": ["a,b"]}}, "/worker/queues/0"),
        ({"worker": {"autoscaling": {"type": "both"}}}, "/worker/autoscaling/type"),
        ({"config": {"lease.duration_s": 30}}, "/config"),
        (
            {"config": {"JQ_DB_HOST": None, "JQ_KAFKA_BROKERS": ["a", "b"]}},
            "/config/JQ_KAFKA_BROKERS",
        ),
        ({"server": {"podLabels": {"jobqueue/pool": "x"}}}, "jobqueue/pool"),
        ({"server": {"image": {"digest": "sha256:short"}}}, "/server/image/digest"),
        ({"commonLabels": {"app.kubernetes.io/name": "mine"}}, "app.kubernetes.io/name"),
    ],
)
def test_a_value_that_no_object_could_take_is_refused(
    helm: Helm, values: Values, place: str
) -> None:
    with pytest.raises(Refused, match=f"'{place}'"):
        helm.render(over(MINIMAL, values))


def test_the_schema_is_closed_but_for_what_kubernetes_defines(helm: Helm) -> None:
    free = {path for path, part in _objects(SCHEMA, "") if "additionalProperties" not in part}
    assert free == {
        "global", "podSecurityContext", "securityContext", "objects[]", "behavior", "affinity",
        "valueFrom", "requests", "limits",
    }  # fmt: skip


def _objects(part: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(part, dict):
        return
    if part.get("type") == "object":
        yield name, part
    for key, below in (part.get("properties", {}) | part.get("definitions", {})).items():
        yield from _objects(below, key)
    if "items" in part:
        yield from _objects(part["items"], f"{name}[]")


# What cannot work together.

# Options of Kafka may hold a password, and mostly hold none.
ALWAYS_SECRET = sorted(SECRETS - {"kafka.options"})


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"existingSecret": ""}, "existingSecret: is needed"),
        ({"secret": {"JQ_DB_URL": "x"}}, "secret: contradicts existingSecret"),
        ({"server": {"replicas": 3}}, "server.replicas: contradicts server.autoscaling.enabled"),
        ({"server": {"autoscaling": {"minReplicas": 11}}}, "minReplicas: is above maxReplicas"),
        ({"worker": {"autoscaling": {"type": "keda"}}}, "set server.scaler.enabled"),
        (
            {"worker": {"autoscaling": {"type": "hpa"}, "replicas": 0}},
            "pools.default.replicas: contradicts autoscaling.type hpa",
        ),
        (
            {"worker": {"autoscaling": {"type": "hpa", "minReplicas": 0}}},
            "an hpa cannot scale to 0",
        ),
        (
            {"worker": {"autoscaling": {"type": "hpa", "maxReplicas": 1}}},
            "pools.default.autoscaling.minReplicas: is above maxReplicas",
        ),
        (
            {"config": {"JQ_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512"}},
            "is for servers alone, and may stop workers: it belongs into server.config",
        ),
        (
            {"worker": {"config": {"JQ_REDIS_ADDR": "r:6379"}}},
            "worker.config.JQ_REDIS_ADDR: is for",
        ),
        (
            {"pools": [{"name": "a", "config": {"JQ_AUTH_JWT_AUDIENCE": "q"}}]},
            "pools.a.config.JQ_AUTH_JWT_AUDIENCE: is for servers alone",
        ),
        ({"worker": {"handlers": []}}, "pools.default.handlers: is needed"),
        ({"pools": [{"name": "a"}, {"name": "a"}]}, "pools.a: is there twice"),
        (
            {"worker": {"serviceAccount": {"name": "s"}}, "pools": [{"name": "a"}, {"name": "b"}]},
            "pools.b.serviceAccount.name: s is made by another pool",
        ),
        (
            {"pools": [{"name": "a", "remote": True, "extraEnv": [{"name": "JQ_DB_HOST"}]}]},
            "pools.a.extraEnv.JQ_DB_HOST: a remote pool must not know the database",
        ),
        (
            {"existingSecret": "", "secret": {"JQ_DB_PASSWORD": "x"}},
            "pools.default.secretKeys.JQ_DB_URL: is not in secret",
        ),
        ({"tls": {"enabled": True}}, "tls.enabled: needs tls.existingSecret or"),
        (
            over(GIVEN, {"tls": {"certManager": {"enabled": True, "issuerRef": {"name": "ca"}}}}),
            "contradicts tls.certManager.enabled",
        ),
        (over(ISSUED, {"tls": {"certManager": {"issuerRef": {"name": ""}}}}), "name: is needed"),
        (
            over(GIVEN, {"tls": {"existingClientSecret": ""}}),
            "tls.existingClientSecret: is needed by far",
        ),
        (over(KEDA, {"server": {"scaler": {"tls": "server"}}}), "server.scaler.tls: needs tls"),
        (
            over(MUTUAL, {"tls": {"clientCertificates": False}}),
            "server.scaler.tls: mutual needs tls.clientCertificates",
        ),
    ],
)
def test_values_that_cannot_work_together_are_refused_in_one_sentence(
    helm: Helm, values: Values, told: str
) -> None:
    with pytest.raises(Refused) as refused:
        helm.render(over(MINIMAL, values))
    assert told in str(refused.value)
    assert str(refused.value).count("\n  - ") == 1


def test_all_faults_are_told_at_once(helm: Helm) -> None:
    with pytest.raises(Refused) as refused:
        helm.render({"server": {"replicas": 1}, "tls": {"enabled": True}})
    assert str(refused.value).count("\n  - ") == 4


@pytest.mark.parametrize(
    "way",
    [
        {"config": {"JQ_WORKER_ALLOW_SHELL": True}},
        {"worker": {"config": {"JQ_WORKER_COMMANDS": '{"resize": ["convert", "-"]}'}}},
        {"worker": {"extraEnv": [{"name": "JQ_WORKER_COMMANDS", "value": "{}"}]}},
    ],
)
def test_a_pool_needs_no_handlers_where_it_has_commands(helm: Helm, way: Values) -> None:
    args = helm.render(over({"existingSecret": "a"}, way)).workload("jq-worker").main["args"]
    assert [arg for arg in args if arg.startswith("--handlers")] == []


@pytest.mark.parametrize("variable", [*map(variable_of, ALWAYS_SECRET), "JQ_API_KEY"])
def test_no_secret_of_the_product_is_taken_in_plain_sight(helm: Helm, variable: str) -> None:
    with pytest.raises(Refused, match=f"config.{variable}: is a secret"):
        helm.render(over(MINIMAL, {"config": {variable: "x"}}))


@pytest.mark.parametrize("where", ["server.config", "worker.config", "pools"])
def test_a_secret_is_refused_wherever_settings_are_given(helm: Helm, where: str) -> None:
    settings = {"JQ_DB_PASSWORD": "x"}
    values = (
        {"pools": [{"name": "a", "config": settings}]} if where == "pools" else at(where, settings)
    )
    with pytest.raises(Refused, match="JQ_DB_PASSWORD: is a secret"):
        helm.render(over(MINIMAL, values))


def test_what_the_chart_sets_by_itself_is_refused_in_values(helm: Helm) -> None:
    everything = over(
        over(MINIMAL, over(ISSUED, {**KEDA, **FAR})), {"worker": {"podDeletionCost": True}}
    )
    everything = over(everything, {"server": {"scaler": {"tls": "mutual"}}})
    manifests = helm.render(everything)
    ours = {
        item["name"]
        for workload in manifests.workloads()
        for item in workload.main.get("env", ())
        if item["name"].startswith("JQ_") and "value" in item
    }
    assert {"JQ_SCALER_TLS", "JQ_GRPC_TLS_CA_PATH", "JQ_TLS_KEY", "JQ_SERVER_ADDR"} <= ours
    ports = {variable_of(key) for key in RULES if key.endswith(".port")} - {"JQ_DB_PORT"}
    flags = {"JQ_WORKER_HANDLERS", "JQ_WORKER_PROCESSES"}
    assert flags | ports <= VARIABLES.keys()
    for variable in ours | ports | flags:
        extra = {"server": {"extraEnv": [{"name": variable, "value": "1"}]}}
        for given in ({"config": {variable: 1}}, extra):
            with pytest.raises(Refused, match=f"{variable}: is not set there but by"):
                helm.render(over(MINIMAL, given))
