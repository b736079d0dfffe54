"""The Terraform files fit together: names, inputs, outputs, and what must never be in them.

``terraform validate`` needs the provider, and so a registry; .github/workflows/ci.yml runs it.
What can be known from the files alone is looked at here.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from jobqueue.config.keys import RULES, variable_of
from jobqueue.config.load import load_settings
from tests.deploy.support_terraform import (
    ROOT,
    Module,
    examples,
    fields,
    load,
    modules,
    pairs,
    required,
    strings,
)

K8S = Path(__file__).parents[2] / "k8s"
OVERLAY = K8S / "overlays" / "production"
SCALERS = (
    ("base/server-scaling.yaml", "maxReplicas", "max_servers"),
    ("components/hpa/worker-hpa.yaml", "maxReplicas", "max_worker_processes"),
    ("components/keda/scaled-object.yaml", "maxReplicaCount", "max_worker_processes"),
)
MODULES = modules()
ENTRANCE = load(ROOT)

each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
each_example = pytest.mark.parametrize("example", examples(), ids=lambda module: module.name)

_META = {"source", "count", "for_each", "depends_on", "providers", "version"}
_ANYWHERE = re.compile(r"0\.0\.0\.0/0|::/0")
_SECRET = re.compile(r"(password|token|secret)$|secret_string")


def test_both_examples_and_all_modules_are_looked_at() -> None:
    assert {module.name for module in examples()} == {
        "aws/examples/production",
        "aws/examples/small",
    }
    called = {ENTRANCE.called(name).folder for name in ENTRANCE.calls}
    assert called == set((ROOT / "modules").iterdir())


@each_module
def test_versions_of_terraform_and_of_its_providers_are_bounded(module: Module) -> None:
    assert "<" in module.requirements["required_version"]
    for providers in module.requirements["required_providers"]:
        for provider in providers.values():
            assert re.search(r"^\d+\.\d+\.\d+$|< \d+\.0$", provider["version"])


@each_example
def test_examples_name_exact_versions_that_every_module_allows(example: Module) -> None:
    for provider, chosen in _versions(example).items():
        exact = tuple(int(part) for part in chosen.split("."))
        for module in MODULES:
            least = re.match(r">= (\d+)\.(\d+)", _versions(module).get(provider, ">= 0.0"))
            assert least is None or exact >= tuple(int(part) for part in least.groups())


@each_module
def test_every_variable_is_described_typed_and_used(module: Module) -> None:
    for name, body in module.variables.items():
        assert body["description"].endswith("."), name
        assert body["type"], name
    assert set(module.variables) == module.references("var")


@pytest.mark.parametrize("module", [ENTRANCE, *examples()], ids=lambda module: module.name)
def test_what_people_may_set_is_validated(module: Module) -> None:
    free = [n for n, body in module.variables.items() if body["type"] not in {"bool", "${bool}"}]
    assert [name for name in free if "validation" not in module.variables[name]] == []


@each_module
def test_every_output_is_described(module: Module) -> None:
    assert [n for n, body in module.outputs.items() if not body["description"].endswith(".")] == []


@each_module
def test_every_local_value_is_used_and_every_used_one_exists(module: Module) -> None:
    assert set(module.locals) == module.references("local")


@each_module
def test_every_resource_that_is_named_exists(module: Module) -> None:
    assert module.thing_references() - set(module.things) == set()


@each_module
def test_every_output_of_a_module_that_is_used_exists(module: Module) -> None:
    for name, output in module.call_references():
        assert output in module.called(name).outputs, f"module.{name}.{output}"


@pytest.mark.parametrize("name", sorted(ENTRANCE.calls))
def test_every_output_of_an_inner_module_is_used(name: str) -> None:
    used = {output for call, output in ENTRANCE.call_references() if call == name}
    assert set(ENTRANCE.called(name).outputs) == used


@each_module
def test_every_module_gets_what_it_asks_for_and_nothing_else(module: Module) -> None:
    for name, call in module.calls.items():
        callee = module.called(name)
        given = set(call) - _META
        assert given - set(callee.variables) == set(), name
        assert required(callee) - given == set(), name


@each_module
def test_objects_passed_on_have_only_fields_that_the_type_names(module: Module) -> None:
    # Terraform drops others without a word, and the default stays in force.
    for name, call in module.calls.items():
        variables = module.called(name).variables
        for key, value in call.items():
            if isinstance(value, dict) and key in variables and fields(variables[key]):
                assert set(value) - fields(variables[key]) == set(), f"{name}.{key}"


@each_module
def test_no_secret_is_written_down(module: Module) -> None:
    literal = [
        name
        for body in module.things.values()
        for name, value in pairs(body)
        if _SECRET.search(name) and isinstance(value, str) and "${" not in value
    ]
    assert literal == []


@each_module
def test_nothing_is_open_to_the_whole_internet(module: Module) -> None:
    opened = {
        type_
        for (_, type_, _), body in module.things.items()
        if any(_ANYWHERE.search(text) for text in strings(body))
    }
    assert opened <= {"aws_route"}  # the ways out
    for group in module.resources("aws_security_group").values():
        assert "ingress" not in group  # rules are resources, each with its reason
    for rule in module.resources("aws_vpc_security_group_ingress_rule").values():
        assert rule["description"]
        assert rule["from_port"] == rule["to_port"]


def test_only_servers_reach_cache_and_brokers() -> None:
    for name in ("cache", "events"):
        assert set(ENTRANCE.calls[name]["clients"]) == {"server"}


def test_the_database_is_encrypted_private_and_speaks_tls_only() -> None:
    database = ENTRANCE.called("database")
    (instance,) = database.resources("aws_db_instance").values()
    assert instance["storage_encrypted"] is True
    assert instance["publicly_accessible"] is False
    assert instance["manage_master_user_password"] is True
    (group,) = database.resources("aws_db_parameter_group").values()
    given = {parameter["name"]: parameter["value"] for parameter in group["parameter"]}
    assert given["rds.force_ssl"] == "1"
    # With its parameters a slow statement would show payloads.
    assert not any(name.startswith("log_min_duration") for name in given)


@each_module
def test_every_log_group_ends_and_is_encrypted(module: Module) -> None:
    for name, group in module.resources("aws_cloudwatch_log_group").items():
        assert {"retention_in_days", "kms_key_id"} <= set(group), name


def test_production_is_protected_and_bears_the_loss_of_a_zone() -> None:
    call = load(ROOT / "examples" / "production").calls["jobqueue"]
    assert "protected" not in call
    assert ENTRANCE.variables["protected"]["default"] is True
    assert call["network"]["zone_count"] == 3
    assert call["network"]["nat_per_zone"] is True
    assert call["database"]["multi_az"] is True


def test_the_settings_it_gives_are_settings_of_the_programs() -> None:
    known = {variable_of(key) for key in RULES} | {"JQ_ENV"}
    named = {name for module in MODULES for name in re.findall(r"\bJQ_[A-Z_]+[A-Z]\b", module.text)}
    assert named - known == set()
    assert {"JQ_DB_URL", "JQ_REDIS_ADDR", "JQ_REDIS_PASSWORD", "JQ_KAFKA_BROKERS"} <= named


def test_what_it_gives_to_all_programs_needs_no_secret_that_workers_lack() -> None:
    shared = dict(ENTRANCE.locals["shared_settings"])
    env = {**shared, "JQ_DB_URL": "postgresql://jq_worker:secret@db.example.com:5432/jobqueue"}
    assert load_settings(flags={}, env=env, path=None).settings.db.sslmode == "require"


def test_roles_of_iam_are_for_the_service_accounts_of_the_manifests() -> None:
    accounts = {
        call["service_account"] for call in ENTRANCE.calls.values() if "service_account" in call
    }
    assert accounts == {"jq-server", "jq-worker"}


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_the_database_is_given_connections_for_all_pods_that_the_manifests_may_make(
    example: Module,
) -> None:
    fleet = example.calls["jobqueue"]["fleet"]
    for file, key, size in SCALERS:
        scalers = yaml.safe_load_all((K8S / file).read_text("utf-8"))
        (most,) = (s["spec"][key] for s in scalers if key in s["spec"])
        assert fleet[size] >= most, f"{size} of {file}"


def test_the_production_overlay_finds_its_settings_and_its_nodes_here() -> None:
    wanted = re.findall(r"^(JQ_\w+)=", (OVERLAY / "server.env").read_text("utf-8"), re.MULTILINE)
    given = set(re.findall(r"JQ_\w+", "\n".join(strings(ENTRANCE.locals))))
    assert wanted
    assert set(wanted) <= given
    pod = yaml.safe_load((OVERLAY / "worker.yaml").read_text("utf-8"))["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {ENTRANCE.locals["pool_label"]: "worker"}
    assert [taint["key"] for taint in pod["tolerations"]] == [ENTRANCE.locals["pool_label"]]


def test_the_files_are_formatted() -> None:
    ended = subprocess.run(
        [_terraform(), "fmt", "-check", "-diff", "-recursive", str(ROOT)],
        env={"PATH": os.environ["PATH"], "CHECKPOINT_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


def _versions(module: Module) -> dict[str, str]:
    return {
        name: provider["version"]
        for providers in module.requirements["required_providers"]
        for name, provider in providers.items()
    }


def _terraform() -> str:
    found = shutil.which("terraform")
    if found is None and os.environ.get("JQ_REQUIRE_TERRAFORM") == "1":
        pytest.fail("there is no terraform, and JQ_REQUIRE_TERRAFORM is set")
    if found is None:
        pytest.skip("there is no terraform")
    return found
