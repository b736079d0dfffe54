"""Handlers that know nothing of OpenTelemetry."""

import logging
import os
import sys

from jobqueue.worker import Context, handler

_MAKES_SPANS = ("opentelemetry.sdk", "opentelemetry.exporter", "jobqueue.telemetry.tracing")


@handler("variable")
def variable(_context: Context) -> str:
    """Show the trace context of the environment, from a handler process."""
    logging.getLogger("app").info("in a process")
    return os.environ.get("TRACEPARENT", "")


@handler("loaded")
async def loaded(_context: Context) -> list[str]:
    """Name what the worker itself has loaded to make spans and to export them.

    Not the bare API of OpenTelemetry, which libraries load for themselves.
    """
    return [name for name in sys.modules if name.startswith(_MAKES_SPANS)]
