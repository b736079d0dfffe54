"""docker-compose.yml: well formed, safe by default, and true to the settings (R-10.1)."""

import json
import re
import tomllib
from importlib.resources import files
from pathlib import PurePosixPath

import jsonschema
import pytest
import yaml

from jobqueue.config.load import load_settings
from tests.deploy.conftest import Tell
from tests.deploy.support_compose import ROOT, environment_of, read_compose, seconds, services

OURS = ("server", "server-2", "worker", "load", "ctl")
# It writes its configuration into its own root when it starts.
WRITES_ITS_ROOT = {"kafka"}
SERVERS, WORKERS = 2, 10
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_it_is_valid_by_the_specification_of_compose(validated: Tell) -> None:
    vendor = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(read_compose(), json.loads(vendor.read_text(encoding="utf-8")))
    validated(f"docker-compose.yml: {len(services())} services, by compose's specification")


def test_the_services_are_those_that_make_up_the_product() -> None:
    started = {name for name, service in services().items() if "profiles" not in service}
    assert started == {"postgres", "redis", "kafka", "server", "worker", "prometheus", "grafana"}
    profiles = {name: s["profiles"] for name, s in services().items() if "profiles" in s}
    assert profiles == {"server-2": ["second-server"], "load": ["load"], "ctl": ["tools"]}


def test_images_are_pinned_and_ours_are_those_of_the_dockerfile() -> None:
    for name, service in services().items():
        image, _, tag = service["image"].partition(":")
        assert re.search(r"\d+\.\d+", tag), name
        if name in OURS:
            assert (image, tag) == (f"jobqueue/{service['build']['target']}", VERSION)


def test_ports_are_on_the_loopback_and_no_two_are_the_same() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_workers_can_be_scaled() -> None:
    assert [name for name, service in services().items() if "container_name" in service] == []
    assert "ports" not in services()["worker"]


@pytest.mark.parametrize("name", services())
def test_a_service_has_no_more_rights_than_it_needs(name: str) -> None:
    service = services()[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service.get("read_only", False) != (name in WRITES_ITS_ROOT)
    assert not service.get("privileged", False)


@pytest.mark.parametrize("name", services())
def test_a_service_is_bounded_and_comes_back(name: str) -> None:
    service = services()[name]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["restart"] in {"unless-stopped", "on-failure", "no"}


@pytest.mark.parametrize("name", services())
def test_what_a_service_mounts_is_there_and_only_to_be_read(name: str) -> None:
    document = read_compose()
    for mount in services()[name].get("volumes", []):
        source, _, rest = mount.partition(":")
        if source.startswith("."):
            assert (ROOT / source).exists(), source
            assert rest.endswith(":ro"), mount
        else:
            assert source in document["volumes"], source


def test_each_named_volume_is_mounted() -> None:
    mounts = [m for service in services().values() for m in service.get("volumes", [])]
    assert {m.split(":")[0] for m in mounts if m[0] != "."} == set(read_compose()["volumes"])


@pytest.mark.parametrize("name", services())
def test_whoever_waits_for_a_service_waits_for_its_health(name: str) -> None:
    for other, how in services()[name].get("depends_on", {}).items():
        assert how == {"condition": "service_healthy"}
        assert services()[other]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", ["server", "server-2", "worker"])
def test_the_variables_of_a_program_are_settings_that_work_together(name: str) -> None:
    loaded = load_settings(flags={}, env=environment_of(name), path=None)
    assert loaded.warnings == ()
    assert loaded.sets("db")


def test_a_program_is_given_the_time_that_its_orderly_end_may_take() -> None:
    settings = load_settings(flags={}, env=environment_of("server"), path=None).settings
    grace_s = settings.server.shutdown_grace_period_s
    assert seconds(services()["server"]["stop_grace_period"]) >= grace_s + 5
    own = load_settings(flags={}, env=environment_of("worker"), path=None).settings.worker
    ends_s = own.shutdown_grace_period_s + own.kill_grace_s
    assert seconds(services()["worker"]["stop_grace_period"]) >= ends_s + 30


def test_addresses_are_those_of_services_and_the_password_is_the_same() -> None:
    ours, database = environment_of("server"), environment_of("postgres")
    hosts = [ours[x].split(":")[0] for x in ("JQ_DB_HOST", "JQ_REDIS_ADDR", "JQ_KAFKA_BROKERS")]
    assert hosts == ["postgres", "redis", "kafka"]
    assert ours["JQ_DB_PASSWORD"] == database["POSTGRES_PASSWORD"]
    defaults = load_settings(flags={}, env=ours, path=None).settings.db
    assert (defaults.user, defaults.name) == (database["POSTGRES_USER"], database["POSTGRES_DB"])
    assert environment_of("load")["JQ_SERVER_ADDR"] == "server:50051"


def test_postgres_is_durable_and_has_connections_for_ten_workers_and_two_servers() -> None:
    settings = dict(re.findall(r"(\w+)=(\S+)", " ".join(services()["postgres"]["command"])))
    assert settings.keys() & {"fsync", "synchronous_commit", "full_page_writes"} == set()
    pool = load_settings(flags={}, env=environment_of("server"), path=None).settings.db.pool_size
    assert int(settings["max_connections"]) >= SERVERS * (pool + 3) + WORKERS * 3 + 10


def test_prometheus_asks_the_services_that_are_there_for_scaled_ones_too() -> None:
    text = (ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8")
    asked = {
        (name, found["port"])
        for job in yaml.safe_load(text)["scrape_configs"]
        for found in job.get("dns_sd_configs", [])
        for name in found["names"]
    }
    assert asked == {("server", 9090), ("worker", 9091)}
    assert services()["server-2"]["networks"]["default"]["aliases"] == ["server"]


def test_grafana_finds_its_dashboards_where_they_are_mounted() -> None:
    provider = ROOT / "deploy/grafana/provisioning/dashboards"
    paths = {
        found["options"]["path"]
        for file in provider.glob("*.y*ml")
        for found in yaml.safe_load(file.read_text(encoding="utf-8"))["providers"]
    }
    mounts = {m.split(":")[1] for m in services()["grafana"]["volumes"]}
    assert paths
    assert all(any(PurePosixPath(p).is_relative_to(m) for m in mounts) for p in paths)
