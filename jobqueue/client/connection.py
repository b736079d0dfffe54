"""One connection of a client, of either kind, and the stubs of the services on it."""

from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from jobqueue.client.calls import Call
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
