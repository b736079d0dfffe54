"""The keeper process of a remote worker (see ``jobqueue.lease.keeping``)."""

import json
from dataclasses import asdict

from jobqueue.lease.keeping import KeeperProcess, Pipe, run_keeper
from jobqueue.lease.messages import Begin
from jobqueue.remote.backing import ServerBacking
from jobqueue.remote.link import Link
from jobqueue.transport import Route, Tls


def source_of(route: Route) -> str:
    """Return a route as the first message to the keeper carries it."""
    return json.dumps(asdict(route), default=str)


def read_route(source: str) -> Route:
    """Read what ``source_of`` made."""
    fields = json.loads(source)
    tls = fields.pop("tls")
    return Route(**fields, tls=Tls(**tls) if tls else None)


def make_keeper(begin: Begin, pipe: Pipe, parent: int) -> KeeperProcess:
    """Return a keeper that renews through a server."""
    link = Link(read_route(begin.source), timeout_s=begin.settings.statement_timeout_s)
    return KeeperProcess(begin, pipe, parent, ServerBacking(link, draining=begin.draining))


if __name__ == "__main__":
    run_keeper(make_keeper)
