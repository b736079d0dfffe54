"""Settings of the Kafka client library, passed on under its own names (`kafka.options`).

What brokers ask for is not ours to list: certificates, keys, logins, buffers. Names are checked
here for their form and for what jobqueue sets itself; whether the library knows them, it says.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from jobqueue.config.secret import Secret
from jobqueue.config.yaml_text import read_yaml

Options: TypeAlias = Mapping[str, str | Secret]

_FORM = 'must map names of the Kafka library to values, like {"ssl.ca.location": "/etc/ca.pem"}'
# The library's names; what else it accepts are callbacks, which nobody can write down.
_NAME = re.compile(r"[a-z][a-z0-9]*(\.[a-z0-9]+)*", re.ASCII)
_SECRET = re.compile(r"password|passphrase|secret|\.pem$|oauthbearer\.config$")
_OURS = "is set by jobqueue: order and delivery depend on it"
_SET_ELSEWHERE = {
    "bootstrap.servers": "is kafka.brokers",
    "metadata.broker.list": "is kafka.brokers",
    "security.protocol": "is kafka.security_protocol",
    "sasl.mechanism": "is kafka.sasl.mechanism",
    "sasl.mechanisms": "is kafka.sasl.mechanism",
    "sasl.username": "is kafka.sasl.username",
    "sasl.password": "is kafka.sasl.password",
    "acks": "is kafka.producer.acks",
    "request.required.acks": "is kafka.producer.acks",
    "compression.type": "is kafka.producer.compression",
    "compression.codec": "is kafka.producer.compression",
    "enable.idempotence": _OURS,
    "transactional.id": _OURS,
    "partitioner": _OURS,
    "message.timeout.ms": _OURS,
    "delivery.timeout.ms": _OURS,
    "queue.buffering.max.messages": _OURS,
    "default.topic.config": "is no setting of its own",
    "plugin.library.paths": "is not allowed",
    "logger": "is not allowed",
    "opaque": "is not allowed",
}


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """A value for each name. No refusal shows a value: it may be a password."""

    def read(self, raw: object) -> Options:
        """Accept a mapping; text is read as YAML, so JSON will do."""
        return MappingProxyType({name: _value(name, it) for name, it in _mapping(raw).items()})


def names_secret(raw: object) -> bool:
    """Say whether what was given holds a value that must not be shown."""
    try:
        return any(map(_is_secret, _mapping(raw)))
    except ValueError:
        return False


def _mapping(raw: object) -> Mapping[str, object]:
    given = read_yaml(raw) if isinstance(raw, str) else raw
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ValueError(_FORM)
    return given


def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def _value(name: str, value: object) -> str | Secret:
    if not _NAME.fullmatch(name):
        raise ValueError(f"has {name[:64]!r}, which is no name of the Kafka library")
    if name in _SET_ELSEWHERE:
        raise ValueError(f"must not set {name}: that {_SET_ELSEWHERE[name]}")
    match value:
        case str():
            return Secret(value) if _is_secret(name) else value
        case int() if not _is_secret(name):
            return str(value).lower() if isinstance(value, bool) else str(value)
    raise ValueError(f"must have text for {name} (quote it)")
