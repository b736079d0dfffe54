"""The flags that say where the server is, for every program that calls it."""

import click
import pytest
from click.testing import CliRunner

from jobqueue.cli.connection import (
    CONNECTION_FLAGS,
    Connection,
    ConnectionFlag,
    connection_options,
)
from jobqueue.config.load import load_settings
from jobqueue.errors import InvalidArgument
from jobqueue.transport import DEFAULT_ADDRESS, Route, Tls


def route_of(*arguments: str, **variables: str) -> Route:
    found = []

    @click.command()
    @connection_options
    def program(**given: str | None) -> None:
        found.append(Connection.taken_from(given).route())
        assert given == {}

    env = {each.variable: None for each in CONNECTION_FLAGS} | variables
    ended = CliRunner(env=env).invoke(program, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return found[0]


def test_nothing_said_means_plaintext_to_this_machine() -> None:
    assert route_of() == Route(DEFAULT_ADDRESS)


def test_flags_make_a_route() -> None:
    flags = ("--server-addr", "h:1", "--tls-ca", "a", "--tls-cert", "c", "--tls-key", "k")
    expected = Route("h:1", tls=Tls("a", "c", "k"), api_key="secret")
    assert route_of(*flags, "--api-key", "secret") == expected


def test_variables_stand_in_for_flags_and_an_empty_one_for_nothing() -> None:
    variables = {"JQ_SERVER_ADDR": "h:1", "JQ_TLS_CA": "a", "JQ_TLS_CERT": "", "JQ_API_KEY": ""}
    assert route_of(**variables) == Route("h:1", tls=Tls("a"))


def test_a_flag_beats_its_variable() -> None:
    assert route_of("--server-addr", "flag:1", JQ_SERVER_ADDR="variable:1").address == "flag:1"


@pytest.mark.parametrize("address", ["h:1", "[::1]:65535", "10.0.0.1:50051", "unix:/run/jq.sock"])
def test_an_address_is_a_host_and_a_port_or_a_target_of_grpc(address: str) -> None:
    assert route_of("--server-addr", address).address == address


@pytest.mark.parametrize(
    "address", ["", " ", "h", "h:", ":1", "h:0", "h:65536", "h:x", "::1", "::1:1", "http://h:1"]
)
def test_an_address_that_grpc_would_misread_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Route(address)
    assert [fault.field for fault in caught.value.violations] == ["address"]


def test_an_api_key_is_in_no_repr() -> None:
    assert "hunter2" not in repr(Route(api_key="hunter2")) + repr(Connection(api_key="hunter2"))


@pytest.mark.parametrize("flag", CONNECTION_FLAGS, ids=lambda each: each.variable)
def test_their_variables_are_no_unknown_settings(flag: ConnectionFlag) -> None:
    loaded = load_settings(flags={}, env={flag.variable: "x"}, path=None)
    assert loaded.warnings == ()
