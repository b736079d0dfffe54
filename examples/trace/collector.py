"""A collector of OpenTelemetry spans (OTLP over gRPC) that keeps them in memory."""

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True)
class Span:
    """One span as it was exported. ``parent_id`` is empty for a root; times are nanoseconds."""

    name: str
    kind: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[str, ...]
    begun: int
    ended: int
    failed: bool
    attributes: Mapping[str, Any]


class Collector(service.TraceServiceServicer):
    """Serves on a free port of the loopback; ``with`` starts and stops it."""

    def __init__(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(2))
        add: Any = service.add_TraceServiceServicer_to_server  # has no types
        add(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._lock = threading.Lock()
        self._spans: list[Span] = []

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a program export to here."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def spans(self) -> list[Span]:
        """Return what has arrived, in the order of the beginnings."""
        with self._lock:
            return sorted(self._spans, key=lambda span: span.begun)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()

    def Export(  # noqa: N802 - gRPC gives the name
        self, request: pb.ExportTraceServiceRequest, _context: grpc.ServicerContext
    ) -> pb.ExportTraceServiceResponse:
        """Take spans."""
        arrived = [
            _span(span, str(_plain(sent.resource.attributes)["service.name"]))
            for sent in request.resource_spans
            for scope in sent.scope_spans
            for span in scope.spans
        ]
        with self._lock:
            self._spans += arrived
        return pb.ExportTraceServiceResponse()


def _span(message: SpanMessage, program: str) -> Span:
    return Span(
        message.name,
        SpanMessage.SpanKind.Name(message.kind).removeprefix("SPAN_KIND_"),
        program,
        message.trace_id.hex(),
        message.span_id.hex(),
        message.parent_span_id.hex(),
        tuple(link.span_id.hex() for link in message.links),
        message.start_time_unix_nano,
        message.end_time_unix_nano,
        message.status.code == Status.STATUS_CODE_ERROR,
        _plain(message.attributes),
    )


def _plain(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}
