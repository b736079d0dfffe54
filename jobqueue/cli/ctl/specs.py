"""What to submit, read from flags and from lines of JSON."""

import base64
import binascii
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import click

from jobqueue.cli.ctl.options import parse_instant
from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import MIB, Limits, check, parse_priority, spec_faults
from jobqueue.errors import FieldViolation, InvalidArgument

LIMITS = Limits()
_MAX_LINE_BYTES = 8 * MIB
"""A payload may be spelled with six characters for each of its bytes."""


def read_payload(text: str) -> bytes:
    """Return the bytes that ``TEXT``, ``@FILE`` or ``-`` (stdin) stand for, unchanged.

    Reads no more than shows that it is too large.
    """
    most = LIMITS.payload_bytes + 1
    if text == "-":
        return sys.stdin.buffer.read(most)
    if not text.startswith("@"):
        # Arguments that are no UTF-8 were decoded with escapes; this gives their bytes back.
        return os.fsencode(text)
    try:
        with Path(text[1:]).open("rb") as file:
            return file.read(most)
    except OSError as error:
        fault = f"cannot read {text[1:]}: {error.strerror}"
        raise click.BadParameter(fault, param_hint="'--payload'") from error


def read_lines(stream: BinaryIO, defaults: Mapping[str, Any]) -> Iterator[tuple[int, JobSpec]]:
    """Yield line number and submission of every line that is not blank.

    ``defaults`` are fields of JobSpec for lines that do not say them. Raises InvalidArgument
    that names the line.
    """
    lines = iter(lambda: stream.readline(_MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > _MAX_LINE_BYTES:
            fault = f"is longer than {_MAX_LINE_BYTES} bytes"
            raise InvalidArgument([FieldViolation(f"line {number}", fault)])
        if line.strip():
            spec = _read_line(line, defaults, f"line {number}")
            check(spec_faults(spec, LIMITS, f"line {number}"))
            yield number, spec


def _read_line(line: bytes, defaults: Mapping[str, Any], at: str) -> JobSpec:
    try:
        fields = json.loads(
            line.decode("utf-8-sig"), parse_constant=_refuse_constant, object_pairs_hook=_object
        )
        if not isinstance(fields, dict):
            _wrong("must be an object such as", '{"queue": "emails", "payload": "hello"}')
        read = {**defaults, **_spec_fields(fields)}
        if "queue" not in read:
            _wrong("has no", "queue")
        return JobSpec(**read)
    except RecursionError as error:
        raise InvalidArgument([FieldViolation(at, "is nested too deeply")]) from error
    except ValueError as error:
        raise InvalidArgument([FieldViolation(at, str(error))]) from error


def _spec_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of the proto's JobSpec as those of the domain's; null means not said."""
    said = {name: value for name, value in fields.items() if value is not None}
    encoding = said.pop("payload_encoding", "utf-8")
    read: dict[str, Any] = {}
    for name, value in said.items():
        if name == "payload":
            read[name] = _payload(value, encoding)
        elif name in _FIELDS:
            attribute, reader = _FIELDS[name]
            read[attribute] = reader(name, value)
        else:
            _wrong("has an unknown field", repr(name))
    return read


def _payload(value: Any, encoding: Any) -> bytes:
    text = _text("payload", value)
    if encoding == "utf-8":
        try:
            return text.encode()
        except UnicodeEncodeError:
            _wrong("payload", "is not valid Unicode (lone surrogate)")
    if encoding != "base64":
        _wrong("payload_encoding", "must be utf-8 or base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        _wrong("payload", "is not base64")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        _wrong(name, "must be a string")
    return value


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        _wrong(name, "must be a whole number")
    return value


def _seconds(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        _wrong(name, "must be a number of seconds")
    # A whole number may have more digits than a float can hold; out of range is out of range.
    return float(min(max(value, -1.0), 2 * LIMITS.delay_s))


def _priority(name: str, value: Any) -> int:
    return parse_priority(value) if isinstance(value, str) else _whole(name, value)


def _texts(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        _wrong(name, "must be an object of strings")
    return value


_FIELDS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "queue": ("queue", _text),
    "type": ("type", _text),
    "priority": ("priority", _priority),
    "max_retries": ("max_retries", _whole),
    "ttl": ("ttl_s", _seconds),
    "delay": ("delay_s", _seconds),
    "not_before": ("not_before", lambda name, value: parse_instant(_text(name, value))),
    "run_timeout": ("timeout_s", _seconds),
    "idempotency_key": ("idempotency_key", _text),
    "tenant": ("tenant", _text),
    "labels": ("labels", _texts),
    "trace_context": ("trace_context", _texts),
}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, which would quietly take the last value of a name."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            _wrong("has twice the field", repr(name))
        fields[name] = value
    return fields


def _refuse_constant(name: str) -> NoReturn:
    _wrong(name, "is not JSON")


def _wrong(what: str, fault: str) -> NoReturn:
    raise ValueError(f"{what} {fault}")
