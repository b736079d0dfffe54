"""Tests of what an installation is made of. They tell what they validated when asked by name."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.helm import Helm, running_helm

_PROPERTY = "validated"

Tell = Callable[[str], None]


@pytest.fixture
def validated(record_property: Callable[[str, object], None]) -> Tell:
    """Note a line on what was validated: `make k8s-validate` ends with all of them."""
    return lambda line: record_property(_PROPERTY, line)


@pytest.fixture(scope="session")
def helm() -> Iterator[Helm]:
    """Start Helm, which is asked for one chart after the other."""
    with running_helm() as program:
        yield program


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was validated."""
    lines = sorted(
        str(value)
        for report in terminalreporter.stats.get("passed", ())
        for name, value in report.user_properties
        if name == _PROPERTY
    )
    if lines:
        terminalreporter.section("validated")
        terminalreporter.write("\n".join([*lines, ""]))
