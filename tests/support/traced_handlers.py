"""Handlers that show in which trace they run. Imported by handler processes too."""

import logging
import os

from opentelemetry import trace

from jobqueue.worker import Context, handler

_log = logging.getLogger("app.handlers")


def _seen() -> dict[str, str]:
    found = trace.get_current_span().get_span_context()
    return {
        "trace_id": trace.format_trace_id(found.trace_id),
        "span_id": trace.format_span_id(found.span_id),
        "variable": os.environ.get("TRACEPARENT", ""),
    }


@handler("async")
async def on_the_loop(context: Context) -> dict[str, str]:
    _log.info("on the loop")
    with trace.get_tracer("app").start_as_current_span("my_step"):
        _log.info("in a step")
    if context.attempt == 1 and context.payload == b"once more":
        raise ValueError("not yet")
    return _seen()


@handler("thread", threads=True)
def in_a_thread(context: Context) -> dict[str, str]:
    _log.info("in a thread")
    return _seen()


@handler("sync")
def in_a_process(context: Context) -> dict[str, str]:
    _log.info("in a process")
    print("printed")  # noqa: T201 - must not tear the lines
    return _seen()
