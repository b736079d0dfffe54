"""Our own protocol, answered by a script: what clients, jq-ctl and workers are tried against.

Nothing of PostgreSQL is imitated: a test says what a call answers or how it fails, and looks at
what was asked.
"""

import socket
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2

from jobqueue.v1 import (
    admin_service_pb2,
    event_service_pb2,
    job_pb2,
    job_service_pb2,
    worker_service_pb2,
)

JOB_ID = "8c5c62a1-70f4-4a5c-9a3f-5a0f2c6d1e77"
DETAILS = "grpc-status-details-bin"


class Failure(Exception):
    """An answer that is a failure: a code, a message, rich details."""

    def __init__(self, code: grpc.StatusCode, message: str, *details: Message) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.status = status_pb2.Status(code=code.value[0], message=message)
        for detail in details:
            packed = Packed()
            packed.Pack(detail)
            self.status.details.append(packed)

    def end(self, context: grpc.ServicerContext) -> None:
        """End the call with this failure."""
        if self.status.details:
            context.set_trailing_metadata(((DETAILS, self.status.SerializeToString()),))
        context.abort(self.code, self.message)


def info(reason: str) -> error_details_pb2.ErrorInfo:
    """Return the detail that every failure of our own carries."""
    return error_details_pb2.ErrorInfo(reason=reason, domain="jobqueue")


def job(status: str = "PENDING", **fields: Any) -> job_pb2.Job:
    """Return a job with everything that a job always has."""
    always: dict[str, Any] = {"job_id": JOB_ID, "queue": "emails", "reason": "SUBMITTED"}
    made = job_pb2.Job(**{**always, "status": f"JOB_STATUS_{status}", **fields})
    made.created_at.FromJsonString("2026-01-31T18:00:00.123456Z")
    return made


@contextmanager
def nobody() -> Iterator[str]:
    """Yield an address that refuses all connections; nobody else can come to listen there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


Answer = Message | Failure | list[Message | Failure] | Callable[[Any], Message | Failure]
"""A list is what a stream sends; a function makes the answer from the request."""


class FakeService:
    """Answers by method name, in order; the last answer of a method is repeated."""

    def __init__(self) -> None:
        self.asked: dict[str, list[Any]] = defaultdict(list)
        self.metadata: dict[str, str | bytes] = {}
        self._answers: dict[str, list[Answer]] = {}
        self._server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=8),
            handlers=list(map(self._service, _SERVICES)),
            options=[("grpc.max_receive_message_length", -1)],
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def answer(self, method: str, *answers: Answer) -> None:
        """Say what the next calls of a method get."""
        self._answers[method] = list(answers)

    def start(self) -> None:
        """Listen on a free port."""
        self._server.start()

    def stop(self) -> None:
        """End every call and the server."""
        self._server.stop(None).wait()

    def _service(self, descriptor: Any) -> grpc.GenericRpcHandler:
        handlers = {method.name: self._method(method) for method in descriptor.methods}
        return grpc.method_handlers_generic_handler(descriptor.full_name, handlers)

    def _method(self, method: Any) -> "grpc.RpcMethodHandler[Any, Any]":
        def unary(request: Any, context: grpc.ServicerContext) -> Message:
            return next(stream(request, context))

        def stream(request: Any, context: grpc.ServicerContext) -> Iterator[Message]:
            self.asked[method.name].append(request)
            self.metadata = dict(context.invocation_metadata())
            for part in self._parts(method.name, request):
                if isinstance(part, Failure):
                    part.end(context)
                else:
                    yield part

        wire: dict[str, Any] = {
            "request_deserializer": GetMessageClass(method.input_type).FromString,
            "response_serializer": GetMessageClass(method.output_type).SerializeToString,
        }
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(stream, **wire)
        return grpc.unary_unary_rpc_method_handler(unary, **wire)

    def _parts(self, method: str, request: Any) -> list[Message | Failure]:
        answers = self._answers.get(method) or [Failure(grpc.StatusCode.UNIMPLEMENTED, method)]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            return [answer(request)]
        return answer if isinstance(answer, list) else [answer]


_SERVICES = (
    job_service_pb2.DESCRIPTOR.services_by_name["JobService"],
    admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
    worker_service_pb2.DESCRIPTOR.services_by_name["WorkerService"],
    event_service_pb2.DESCRIPTOR.services_by_name["EventService"],
)
