import json
import subprocess
import sys

import pytest

from jobqueue.telemetry.provider import start_provider, stop_provider

_OWN_PROVIDER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from jobqueue.telemetry.provider import start_provider
own = TracerProvider()
trace.set_tracer_provider(own)
start_provider("jq-worker", "console")
assert trace.get_tracer_provider() is own
"""
_NOTHING_LOADED = """
import sys
import jobqueue.wiring.serve, jobqueue.wiring.worker
names = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "jobqueue.telemetry.tracing")
print([name for name in sys.modules if name.startswith(names)])
"""


def run(code: str) -> str:
    """Run a program of its own: a process has one provider for ever."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "jq-worker"),
        ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs,team=a"}, "theirs"),
    ],
)
def test_a_program_has_its_own_name_unless_the_environment_gives_one(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str
) -> None:
    for variable in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    provider = start_provider("jq-worker", "console")
    assert provider.resource.attributes["service.name"] == name
    provider.shutdown()


async def test_what_has_gathered_is_sent_at_the_end_a_line_a_span(
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider = start_provider("jq-worker", "console")
    for name in ("one", "two"):
        provider.get_tracer("test").start_span(name).end()
    await stop_provider(provider)
    out, err = capsys.readouterr()
    assert out == "", "stdout is for lines of the log"
    assert [json.loads(line)["name"] for line in err.splitlines()] == ["one", "two"]


def test_an_application_keeps_the_provider_that_it_has_set_up() -> None:
    run(_OWN_PROVIDER)


def test_programs_load_nothing_that_makes_or_sends_spans_before_they_are_told_to() -> None:
    assert run(_NOTHING_LOADED) == "[]"
