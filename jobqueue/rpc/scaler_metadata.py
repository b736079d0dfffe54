"""The metadata of a KEDA trigger: strings that people wrote in a ScaledObject (R-10.2)."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jobqueue.domain.limits import Limits, name_faults
from jobqueue.domain.scaling import Mode, Trigger
from jobqueue.errors import FieldViolation, InvalidArgument

QUEUES, TARGET, ACTIVATION, MODE = "queues", "targetPerReplica", "activation", "mode"
OURS = (QUEUES, TARGET, ACTIVATION, MODE)
ALL = "*"

_KEDAS = frozenset(
    ("scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey")
)
"""What KEDA reads itself and passes on with the rest."""
_FROM_ENV = "FromEnv"
_SMALLEST, _LARGEST = 0.001, 1e15
"""KEDA counts in thousandths: a smaller target would be none, and 63 bits hold no more."""
_SLUG_LENGTH, _HASH_LENGTH = 40, 8

Faults = Iterator[FieldViolation]


class _Read(NamedTuple):
    """The value of each of our keys, and the key that it was given by."""

    values: Mapping[str, str]
    keys: Mapping[str, str]


def read_trigger(metadata: Mapping[str, str], limits: Limits) -> Trigger:
    """Read what KEDA sends. Raises InvalidArgument with all that is wrong, by key."""
    read = _ours(metadata)
    faults = [*_key_faults(metadata), *_value_faults(read, limits)]
    if faults:
        raise InvalidArgument(faults)
    values, names = read.values, _names(read.values[QUEUES])
    return Trigger(
        None if names == [ALL] else frozenset(names),
        float(values[TARGET]),
        float(values.get(ACTIVATION, 0)),
        Mode(values.get(MODE, Mode.DEPTH).strip()),
    )


def metric_name(trigger: Trigger) -> str:
    """Return a name that tells modes and sets of queues apart, and is the same at every server.

    It is part of a path in Kubernetes' API: lower case, digits and hyphens.
    """
    names = ",".join(sorted(trigger.queues)) if trigger.queues is not None else ALL
    slug = "all" if trigger.queues is None else re.sub("[^a-z0-9]+", "-", names.lower())
    digest = hashlib.sha256(names.encode()).hexdigest()[:_HASH_LENGTH]
    return f"jq-{trigger.mode}-{slug[:_SLUG_LENGTH].strip('-') or 'queues'}-{digest}"


def _ours(metadata: Mapping[str, str]) -> _Read:
    """Pick our keys. KEDA resolves those that end in FromEnv, and sends them with that ending."""
    keys = {key: name for key in OURS for name in (f"{key}{_FROM_ENV}", key) if name in metadata}
    return _Read({key: metadata[name] for key, name in keys.items()}, keys)


def _key_faults(metadata: Mapping[str, str]) -> Faults:
    for name in sorted(metadata):
        key = name.removesuffix(_FROM_ENV)
        if key not in OURS and key not in _KEDAS:
            yield FieldViolation(name, f"is not known; known are {', '.join(OURS)}")
        elif key != name and key in metadata:
            yield FieldViolation(name, f"contradicts {key}: set one of them")


def _value_faults(read: _Read, limits: Limits) -> Faults:
    values, key_of = read
    for key in (QUEUES, TARGET):
        if key not in values:
            yield FieldViolation(key, "is needed")
    if QUEUES in values:
        yield from _queue_faults(key_of[QUEUES], values[QUEUES], limits)
    if TARGET in values and not _SMALLEST <= _number(values[TARGET]) <= _LARGEST:
        yield FieldViolation(key_of[TARGET], f"must be a number, {_SMALLEST} or above")
    if ACTIVATION in values and not 0 <= _number(values[ACTIVATION]) <= _LARGEST:
        yield FieldViolation(key_of[ACTIVATION], "must be a number, 0 or above")
    if MODE in values and values[MODE].strip() not in set(Mode):
        yield FieldViolation(key_of[MODE], f"must be one of {', '.join(Mode)}")


def _queue_faults(key: str, text: str, limits: Limits) -> Faults:
    names = _names(text)
    if names == [ALL]:
        return
    if ALL in names:
        yield FieldViolation(key, f"{ALL} stands for all queues, and alone")
    for name in names:
        if name != ALL:
            yield from name_faults(key, name, limits)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _number(text: str) -> float:
    """Return the number that is written there; NaN, which no comparison passes, for any other."""
    try:
        return float(text) if text.isascii() else math.nan
    except ValueError:
        return math.nan
