"""The key of every setting, read off the model so that no second list can drift from it."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from jobqueue.config.api_keys import ApiKeys
from jobqueue.config.kafka_options import KafkaOptions
from jobqueue.config.model import RULE, Settings
from jobqueue.config.rules import Rule, SecretText


def _walk(section: type[Any], prefix: str) -> Iterator[tuple[str, Rule[Any]]]:
    for item in fields(section):
        if RULE in item.metadata:
            yield prefix + item.name, item.metadata[RULE]
        else:
            factory: Any = item.default_factory
            yield from _walk(factory, f"{prefix}{item.name}.")


def variable_of(key: str) -> str:
    """Return the environment variable that sets `key`: `db.password` is `JQ_DB_PASSWORD`."""
    return "JQ_" + key.upper().replace(".", "_")


RULES: Mapping[str, Rule[Any]] = dict(_walk(Settings, ""))
"""Key → rule, in the order of the model."""

VARIABLES: Mapping[str, str] = {variable_of(key): key for key in RULES}
"""Environment variable → key."""

SECTIONS = frozenset(key[:end] for key in RULES for end, char in enumerate(key) if char == ".")
"""Every prefix that is not a setting itself, such as `kafka` and `kafka.sasl`."""

_SECRETIVE = SecretText | ApiKeys | KafkaOptions
SECRETS = frozenset(key for key, rule in RULES.items() if isinstance(rule, _SECRETIVE))
"""Keys whose values are, or may hold, what is never shown."""


def value_of(settings: Settings, key: str) -> object:
    """Return the value at a key's path."""
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value
