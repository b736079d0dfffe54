"""Reads settings: flag over environment over file over default, and all faults at once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from jobqueue.config.check import contradictions, doubts
from jobqueue.config.dsn import holds_secret
from jobqueue.config.kafka_options import names_secret
from jobqueue.config.keys import RULES, SECRETS
from jobqueue.config.model import RULE, Settings
from jobqueue.config.ports import SERVER_PORTS, Ports
from jobqueue.config.seams import VARIABLE, read_seams
from jobqueue.config.sources import Findings, Given, Source, collect
from jobqueue.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings that can work, lines the operator should see, and the keys that were set."""

    settings: Settings
    warnings: tuple[str, ...]
    given: frozenset[str]

    def sets(self, section: str) -> bool:
        """Say whether anything in a section (`db`) was set by flag, environment or file."""
        return any(key.startswith(f"{section}.") for key in self.given)


def load_settings(
    *,
    flags: Mapping[str, object],
    env: Mapping[str, str],
    path: Path | None,
    ports: Ports = SERVER_PORTS,
) -> Loaded:
    """Return the settings in force in a program that opens `ports`.

    `flags` maps keys (`grpc.port`) to values; None means that the flag was not used. Raises
    SettingsError with every fault, in the order of the keys, and KeyError for a flag that maps to
    no key.
    """
    findings = Findings()
    given = collect(flags, env, path, findings)
    _judge_secrets(given, env, findings)
    _judge_seams(env, findings)
    values = dict(_read(given, findings))
    settings: Settings = _build(Settings, "", {**ports.defaults, **values})
    refused = given.keys() - values.keys()
    for fault in contradictions(settings, given.keys(), ports.keys):
        # A value that is wrong by itself was replaced by its default: say only the first.
        if refused.isdisjoint({fault.key, fault.beside}):
            findings.faults.append(fault)
    if findings.faults:
        order = {key: number for number, key in enumerate(RULES)}
        findings.faults.sort(key=lambda fault: order.get(fault.key, len(order)))
        raise SettingsError(findings.faults)
    warnings = (*findings.warnings, *doubts(settings))
    return Loaded(settings, warnings, frozenset(given))


def _read(given: Mapping[str, Given], findings: Findings) -> Iterator[tuple[str, object]]:
    for key, item in given.items():
        try:
            yield key, RULES[key].read(item.raw)
        except ValueError as error:
            findings.refuse(key, str(error))


def _build(section: type[Any], prefix: str, values: Mapping[str, object]) -> Any:
    """Make a section from what was read; the model's defaults fill the rest."""
    arguments: dict[str, object] = {}
    for item in fields(section):
        key = prefix + item.name
        if RULE not in item.metadata:
            factory: Any = item.default_factory
            arguments[item.name] = _build(factory, f"{key}.", values)
        elif key in values:
            arguments[item.name] = values[key]
    return section(**arguments)


def _judge_secrets(given: Mapping[str, Given], env: Mapping[str, str], findings: Findings) -> None:
    """Warn about secrets in the file, and refuse them in production."""
    production = _in_production(env)
    for key in sorted(SECRETS & given.keys()):
        if given[key].source is not Source.FILE or not _is_secret(key, given[key].raw):
            continue
        if production:
            findings.refuse(key, "is a secret in a file: in production set it by environment")
        else:
            findings.warn(f"{key} is a secret in a file: set it by environment instead")


def _judge_seams(env: Mapping[str, str], findings: Findings) -> None:
    """Check the accidents that a test asks for; in production there are none to ask for."""
    try:
        armed = read_seams(env.get(VARIABLE, ""))
    except ValueError as error:
        findings.refuse(VARIABLE, str(error))
        return
    if armed and _in_production(env):
        findings.refuse(VARIABLE, "is for tests: not in production")
    elif armed:
        findings.warn(f"{VARIABLE} is set: this program will cut, stop or kill itself")


def _in_production(env: Mapping[str, str]) -> bool:
    return env.get("JQ_ENV", "").strip().lower() == "production"


def _is_secret(key: str, raw: object) -> bool:
    """A database URL is one only when it carries a password, Kafka's options when they do."""
    if key == "kafka.options":
        return names_secret(raw)
    if key != "db.url" or not isinstance(raw, str):
        return True
    try:
        return holds_secret(raw)
    except ValueError:
        return True
