"""What our programs set for gRPC is theirs alone."""

import os

import pytest

from jobqueue.runtime import grpc_environment
from jobqueue.runtime.grpc_environment import environment_given, prepare_grpc


def test_what_is_set_for_ourselves_is_not_passed_on_and_what_was_given_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_environment, "_set", set())
    monkeypatch.setenv("GRPC_VERBOSITY", "info")
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "")
    monkeypatch.delenv("GRPC_ENABLE_FORK_SUPPORT")  # undone after the test, whatever is set
    prepare_grpc()
    assert os.environ["GRPC_ENABLE_FORK_SUPPORT"] == "0"
    assert os.environ["GRPC_VERBOSITY"] == "info"
    assert environment_given().get("GRPC_VERBOSITY") == "info"
    assert "GRPC_ENABLE_FORK_SUPPORT" not in environment_given()
