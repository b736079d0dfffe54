"""Opens the client that the global flags describe."""

from typing import TYPE_CHECKING

import click

from jobqueue.cli.ctl.options import globals_of
from jobqueue.runtime.grpc_environment import prepare_grpc

if TYPE_CHECKING:  # gRPC takes longer to load than all the rest of a --help
    from jobqueue.client import Client


def open_client(ctx: click.Context) -> "Client":
    """Return a client; the context of the command closes it.

    Raises InvalidArgument for flags that cannot work.
    """
    prepare_grpc()
    from jobqueue.client import Client  # noqa: PLC0415 - start-up time of --help

    flags = globals_of(ctx)
    route = flags.route(flags.timeout)
    client = Client(route.address, timeout_s=route.timeout_s, tls=route.tls, api_key=route.api_key)
    return ctx.with_resource(client)
