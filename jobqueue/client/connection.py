"""One connection of a client, of either kind, and the stubs of the services on it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from jobqueue.client.calls import Call
from jobqueue.transport import Route, channel_options, closed_meanwhile
from jobqueue.v1.admin_service_pb2_grpc import AdminServiceStub
from jobqueue.v1.event_service_pb2_grpc import EventServiceStub
from jobqueue.v1.job_service_pb2_grpc import JobServiceStub

Ch = TypeVar("Ch", bound=grpc.Channel | grpc.aio.Channel)
T = TypeVar("T")


class Connection(Generic[Ch]):
    """A channel and what is called on it."""

    def __init__(self, channel: Ch) -> None:
        self.channel = channel
        plain: Any = channel  # the stubs take both kinds, as their annotations do not tell
        self._stubs: dict[str, Any] = {
            "JobService": JobServiceStub(plain),
            "AdminService": AdminServiceStub(plain),
            "EventService": EventServiceStub(plain),
        }

    def method(self, call: Call[T]) -> Any:
        """Return how to send the call."""
        return getattr(self._stubs[call.service], call.method)


def connect_async(
    route: Route, identity: grpc.ChannelCredentials | None
) -> Connection[grpc.aio.Channel]:
    """Connect. Done late: a channel belongs to the loop it is made on."""
    options = channel_options(route.address)
    if identity is None:
        return Connection(grpc.aio.insecure_channel(route.address, options))
    return Connection(grpc.aio.secure_channel(route.address, identity, options))


@contextmanager
def closing_told() -> Iterator[None]:
    """Raise Unavailable for a call whose client is closed: the library says it was cancelled."""
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise closed_meanwhile() from error
