"""Where settings come from: a YAML file, the environment, flags. Each finds its own faults."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from jobqueue.config.keys import RULES, SECTIONS, VARIABLES
from jobqueue.config.yaml_text import read_yaml
from jobqueue.errors import Fault

_MAX_FILE_BYTES = 1024 * 1024
_IGNORED_SECTION = "kafka.consumer"
_IGNORED_VARIABLES = "JQ_KAFKA_CONSUMER_"
# Read by other parts: the CLI, commands and shell jobs, tests.
_OTHERS = re.compile(
    r"JQ_(ENV|SERVER_ADDR|API_KEY|TLS_(CA|CERT|KEY)|SEAMS|TEST_.*|JOB_(ID|ATTEMPT|TYPE|QUEUE))"
)
# Kubernetes tells every pod about services in this form; a service jq-server makes JQ_SERVER_*.
_SERVICE_LINKS = re.compile(r"JQ_.*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP)(_.*)?)")
_SERVICE_URL = re.compile(r"(tcp|udp)://")


class Source(IntEnum):
    """Who gave a value; a higher one wins."""

    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3


@dataclass(frozen=True, slots=True)
class Given:
    """A value before it is read, and where it came from. Not shown: it may be a secret."""

    raw: object = field(repr=False)
    source: Source


@dataclass(slots=True)
class Findings:
    """What is wrong, and what deserves a word."""

    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, key: str, message: str) -> None:
        """Note a fault."""
        self.faults.append(Fault(key, message))

    def warn(self, line: str) -> None:
        """Note a warning, once."""
        if line not in self.warnings:
            self.warnings.append(line)


def collect(
    flags: Mapping[str, object],
    env: Mapping[str, str],
    path: Path | None,
    findings: Findings,
) -> dict[str, Given]:
    """Return the winning value of each key that was given anywhere."""
    given: dict[str, Given] = {}
    document = _read_document(path, findings) if path is not None else {}
    for key, raw in _flatten(document, "", findings):
        given[key] = Given(raw, Source.FILE)
    for key, text in _from_environment(env, findings):
        given[key] = Given(text, Source.ENVIRONMENT)
    for key, raw in flags.items():
        if key not in RULES:
            raise KeyError(key)
        if raw is not None:
            given[key] = Given(raw, Source.FLAG)
    return given


def _read_document(path: Path, findings: Findings) -> Mapping[object, object]:
    try:
        document = read_yaml(_read_bytes(path))
    except OSError as error:
        findings.refuse(str(path), f"cannot be read: {error.strerror}")
    except ValueError as error:
        findings.refuse(str(path), str(error))
    else:
        if document is None or isinstance(document, Mapping):
            return document or {}
        findings.refuse(str(path), "must be a mapping of sections")
    return {}


def _read_bytes(path: Path) -> bytes:
    """Return the content. Raises ValueError for more than settings need: a device has no end."""
    with path.open("rb") as file:
        content = file.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"is larger than {_MAX_FILE_BYTES} bytes")
    return content


def _flatten(
    document: Mapping[object, object], prefix: str, findings: Findings
) -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        key = f"{prefix}{name}"
        if "." in str(name):
            # The same key may be there as a section, too.
            findings.refuse(key, "has a dot: write each part of it as a section")
        elif key == _IGNORED_SECTION or key.startswith(f"{_IGNORED_SECTION}."):
            _say_ignored(findings)
        elif key in RULES:
            # An empty value in YAML is null: the key is there, but nothing was said.
            if value is not None:
                yield key, value
        elif key not in SECTIONS:
            findings.refuse(key, "unknown key" + _suggestion(key))
        elif isinstance(value, Mapping):
            yield from _flatten(value, f"{key}.", findings)
        elif value is not None:
            findings.refuse(key, "is a section, not a value")


def _from_environment(env: Mapping[str, str], findings: Findings) -> Iterator[tuple[str, str]]:
    unknown = []
    for name in sorted(env):
        if name.startswith(_IGNORED_VARIABLES):
            _say_ignored(findings)
        elif name in VARIABLES:
            # Empty means unset: compose files and charts pass variables nobody filled.
            if env[name]:
                yield VARIABLES[name], env[name]
        elif name.startswith("JQ_") and not _is_anothers(name, env[name]):
            unknown.append(name)
    if unknown:
        findings.warn(f"unknown environment variables are ignored: {', '.join(unknown)}")


def _is_anothers(name: str, value: str) -> bool:
    if _OTHERS.fullmatch(name) or _SERVICE_LINKS.fullmatch(name):
        return True
    return name.endswith("_PORT") and _SERVICE_URL.match(value) is not None


def _say_ignored(findings: Findings) -> None:
    findings.warn("kafka.consumer.* is accepted and ignored: jobqueue only produces events")


def _suggestion(key: str) -> str:
    close = difflib.get_close_matches(key, [*RULES, *SECTIONS], n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""
