"""Reads docker-compose.yml as Docker does: merged, and with the defaults of its variables."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{\w+:-([^}]*)\}")
_UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0}


def read_compose() -> dict[str, Any]:
    """Return the whole document; variables of the environment have their defaults."""
    text = _VARIABLE.sub(r"\1", FILE.read_text(encoding="utf-8"))
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def services() -> dict[str, dict[str, Any]]:
    """Return every service by its name, those of profiles too."""
    found: dict[str, dict[str, Any]] = read_compose()["services"]
    return found


def environment_of(service: str) -> dict[str, str]:
    """Return the variables of a service, as its process sees them."""
    return {name: str(value) for name, value in services()[service]["environment"].items()}


def seconds(text: str) -> float:
    """Return a duration of one number and one unit in seconds."""
    match = re.fullmatch(r"(\d+)(s|m|min)", text)
    assert match is not None, text
    return int(match[1]) * _UNITS_S[match[2]]
