"""Settings as text for people; secrets are masked."""

from collections.abc import Mapping

from jobqueue.config.dsn import shown_url
from jobqueue.config.keys import RULES, value_of
from jobqueue.config.model import Settings
from jobqueue.config.secret import Secret


def describe(settings: Settings) -> dict[str, str]:
    """Return every key with its value in force, in the order of the model."""
    return {key: _shown(key, value_of(settings, key)) for key in RULES}


def _shown(key: str, value: object) -> str:
    match value:
        case Secret() if key == "db.url":
            text = shown_url(value.reveal())
        case bool():
            text = str(value).lower()
        case float():
            text = f"{value:.12g}"
        case tuple():
            text = ",".join(map(str, value))
        case Mapping():
            text = "; ".join(f"{name}: {_item(each)}" for name, each in value.items())
        case _:
            text = "" if value is None else str(value)
    return text or "-"


def _item(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)
