"""How a program reaches jq-server: the flags, their variables, and the route they make.

`jq-ctl` and remote workers take the same ones, so that one set of variables serves both.
"""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

if TYPE_CHECKING:  # gRPC takes longer to load than all the rest of a --help
    from jobqueue.transport import Route

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ConnectionFlag:
    """One flag: its name, the variable that stands in for it, and what --help says."""

    flag: str
    variable: str
    text: str
    metavar: str | None = None


CONNECTION_FLAGS = (
    ConnectionFlag(
        "--server-addr",
        "JQ_SERVER_ADDR",
        "Where jq-server is; jq-ctl asks localhost:50051 unless told.",
        "HOST:PORT",
    ),
    ConnectionFlag(
        "--tls-ca", "JQ_TLS_CA", "CA certificates (PEM); any --tls-* flag turns TLS on.", "FILE"
    ),
    ConnectionFlag(
        "--tls-cert", "JQ_TLS_CERT", "Certificate of this client (PEM), with --tls-key.", "FILE"
    ),
    ConnectionFlag("--tls-key", "JQ_TLS_KEY", "Private key of this client (PEM).", "FILE"),
    ConnectionFlag(
        "--api-key",
        "JQ_API_KEY",
        "API key or token; the variable keeps it out of the process list.",
        "KEY",
    ),
)


@dataclass(slots=True)
class Connection:
    """What was said about the server. None or empty: nothing."""

    server_addr: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def taken_from(cls, given: MutableMapping[str, Any]) -> Self:
        """Move the values of these flags out of what click read."""
        return cls(**{each.name: given.pop(each.name) for each in fields(Connection)})

    def route(self, timeout_s: float | None = None) -> "Route":
        """Return the way to the server; defaults for what was not said.

        Raises InvalidArgument for values that cannot work. The files are read on connecting.
        """
        from jobqueue.transport import (  # noqa: PLC0415 - loads gRPC
            DEFAULT_ADDRESS,
            DEFAULT_TIMEOUT_S,
            Route,
            Tls,
        )

        files = (self.tls_ca, self.tls_cert, self.tls_key)
        return Route(
            DEFAULT_ADDRESS if self.server_addr is None else self.server_addr,
            DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s,
            Tls(*(file or None for file in files)) if any(files) else None,
            self.api_key or None,
        )


def connection_options(command: F) -> F:
    """Give a command the flags; its arguments carry their names, as ``Connection`` has them."""
    for each in reversed(CONNECTION_FLAGS):
        decorate = click.option(
            each.flag,
            metavar=each.metavar,
            envvar=each.variable,
            show_envvar=True,
            help=each.text,
        )
        command = decorate(command)
    return command
