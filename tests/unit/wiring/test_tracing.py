import asyncio
import sys

import pytest

from jobqueue.config.model import ServerSettings, Settings, TracingSettings
from jobqueue.wiring.tracing import ServerTraces, server_traces, traces_line, worker_traces

OTEL = "OTEL_TRACES_EXPORTER"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (OTEL, "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def test_an_operator_is_told_whether_traces_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(tracing=TracingSettings(process_as="link"))
    assert traces_line(settings) == "traces: off"
    monkeypatch.setenv(OTEL, "otlp")
    assert traces_line(settings) == "traces: to otlp, attempts as link"


async def test_without_an_exporter_nothing_surrounds_the_parts() -> None:
    submitter, leases, hurry = object(), object(), asyncio.Event()
    async with server_traces(Settings(), hurry) as server, worker_traces(Settings(), hurry) as work:
        assert server == ServerTraces()
        assert server.submitter(submitter) is submitter  # type: ignore[arg-type]
        assert work.leases(leases) is leases  # type: ignore[arg-type]


@pytest.mark.parametrize(("grace_s", "export_s"), [(30.0, 3.0), (5.0, 0.5), (0.0, 0.0)])
async def test_sending_the_last_spans_is_a_small_part_of_the_grace(
    monkeypatch: pytest.MonkeyPatch, grace_s: float, export_s: float
) -> None:
    monkeypatch.setenv(OTEL, "console")
    settings = Settings(server=ServerSettings(shutdown_grace_period_s=grace_s))
    async with server_traces(settings, asyncio.Event()) as traces:
        assert traces.export_s == pytest.approx(export_s)
    assert "opentelemetry.sdk.trace" in sys.modules
