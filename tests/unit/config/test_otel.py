import pytest

from jobqueue.config.otel import span_exporter
from jobqueue.errors import SettingsError

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}


@pytest.mark.parametrize(
    ("env", "exporter"),
    [
        ({}, "none"),
        (ENDPOINT, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4317"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, "none"),
        ({"OTEL_TRACES_EXPORTER": " OTLP "}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, "none"),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "True"}, "none"),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "1"}, "otlp"),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "none"),
    ],
)
def test_the_environment_says_where_spans_go(env: dict[str, str], exporter: str) -> None:
    assert span_exporter(env) == exporter


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_TRACES_EXPORTER", "otlp,console"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
    ],
)
def test_what_there_is_not_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        span_exporter(ENDPOINT | {name: value})
    assert [fault.key for fault in caught.value.faults] == [name]
    assert value in caught.value.faults[0].message


def test_nothing_is_refused_while_everything_is_off() -> None:
    assert span_exporter({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "zipkin"}) == "none"
