"""Where spans go, by the standard variables of OpenTelemetry. Reads them; loads no library."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from jobqueue.errors import Fault, SettingsError

SpanExporter: TypeAlias = Literal["none", "otlp", "console"]

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def span_exporter(env: Mapping[str, str]) -> SpanExporter:
    """Return where spans go; none unless an exporter or an endpoint is named.

    Raises SettingsError for an exporter or a protocol that there is not.
    """
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "none"
    match env.get(_EXPORTER, "").strip().lower():
        case "":
            wanted: SpanExporter = "otlp" if any(env.get(name) for name in _ENDPOINTS) else "none"
        case "none":
            wanted = "none"
        case "otlp":
            wanted = "otlp"
        case "console":
            wanted = "console"
        case other:
            raise SettingsError([Fault(_EXPORTER, f"must be none, otlp or console, not {other!r}")])
    if wanted == "otlp":
        _check_protocol(env)
    return wanted


def _check_protocol(env: Mapping[str, str]) -> None:
    for name in _PROTOCOLS:
        protocol = env.get(name, "").strip()
        if protocol not in {"", "grpc"}:
            raise SettingsError([Fault(name, f"must be grpc, not {protocol!r}")])
