"""A program that the checks of manifests need is there, or somebody hears of it."""

import pytest

from tests.support.manifests.tools import find_tool


@pytest.fixture
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("_nothing_installed")
def test_a_missing_tool_skips_the_tests_of_a_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JQ_REQUIRE_KUBECTL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is no kubectl"):
        find_tool("kubectl")


@pytest.mark.usefixtures("_nothing_installed")
def test_a_missing_tool_fails_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JQ_REQUIRE_KUBECTL", "1")
    with pytest.raises(pytest.fail.Exception, match="JQ_REQUIRE_KUBECTL is set"):
        find_tool("kubectl")
