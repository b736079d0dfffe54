"""Spans that stay in this process."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer


class Spans:
    """A tracer and what it made, in the order of the ends."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("test")

    def ended(self) -> list[ReadableSpan]:
        """Return them all."""
        return list(self._exporter.get_finished_spans())

    def only(self) -> ReadableSpan:
        """Return the one that there must be."""
        (span,) = self.ended()
        return span


@pytest.fixture
def spans() -> Spans:
    return Spans()
