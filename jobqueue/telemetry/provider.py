"""The OpenTelemetry SDK of a program, set up by the standard ``OTEL_*`` variables."""

import asyncio
import sys
import threading

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from jobqueue.runtime.version import version

_UNNAMED = "unknown_service"


def start_provider(program: str, exporter: str) -> TracerProvider:
    """Return a provider that exports to ``otlp`` or ``console``, and make it the one of handlers.

    Samplers, batches, limits and the endpoint are the SDK's to read. An application that set up
    a provider of its own keeps it for its own spans.
    """
    provider = TracerProvider(resource=_resource(program), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(exporter)))
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(provider)
    return provider


async def stop_provider(provider: TracerProvider) -> None:
    """Export what has gathered, then end. A caller that is cancelled leaves the rest unsent."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def stop() -> None:
        provider.shutdown()
        try:
            loop.call_soon_threadsafe(ended.set)
        except RuntimeError:
            return  # the loop did not wait for us

    # A daemon: a collector that does not answer must not keep the program from ending.
    threading.Thread(target=stop, name="traces", daemon=True).start()
    await ended.wait()


def _exporter(name: str) -> SpanExporter:
    if name == "otlp":
        return OTLPSpanExporter()
    # Not stdout, which is for lines of the log; one line a span.
    return ConsoleSpanExporter(
        out=sys.stderr, formatter=lambda span: f"{span.to_json(indent=None)}\n"
    )


def _resource(program: str) -> Resource:
    """Return what the environment says of this program, under its own name unless told."""
    said = Resource.create({SERVICE_VERSION: version()})
    if str(said.attributes[SERVICE_NAME]).startswith(_UNNAMED):
        return said.merge(Resource({SERVICE_NAME: program}))
    return said
