"""Traces of the two programs, when the environment asks for them.

OpenTelemetry is loaded only then: without it a program starts faster and nothing surrounds a job.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from jobqueue.config.model import Settings
from jobqueue.config.otel import span_exporter
from jobqueue.lease.interface import Leases
from jobqueue.rpc.call_context import CallContext
from jobqueue.rpc.handlers import Around
from jobqueue.runtime.shutdown import finishes_before
from jobqueue.submission.submitter import Submits
from jobqueue.worker.worker import UNFOLLOWED, Followed

EXPORT_LIMIT_S = 3.0
"""What has gathered at the end of a program is sent within this, or not at all."""

_EXPORT_SHARE = 0.1
"""Of a server's grace, which is for everything."""


def _same_submitter(submitter: Submits) -> Submits:
    return submitter


def _same_leases(leases: Leases) -> Leases:
    return leases


def _unfollowed(_worker: str) -> Followed:
    return UNFOLLOWED


@dataclass(frozen=True, slots=True)
class ServerTraces:
    """What traces put around the parts of a server; nothing by default.

    ``export_s`` is what they take of its grace, after everything else.
    """

    submitter: Callable[[Submits], Submits] = _same_submitter
    inner: tuple[Around, ...] = ()
    export_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerTraces:
    """What traces put around the parts of a worker; nothing by default."""

    leases: Callable[[Leases], Leases] = _same_leases
    followed: Callable[[str], Followed] = _unfollowed


def traces_line(settings: Settings) -> str:
    """Return what an operator should know about traces. Raises SettingsError."""
    exporter = span_exporter(os.environ)
    if exporter == "none":
        return "traces: off"
    return f"traces: to {exporter}, attempts as {settings.tracing.process_as}"


@asynccontextmanager
async def server_traces(settings: Settings, hurry: asyncio.Event) -> AsyncIterator[ServerTraces]:
    """Yield the traces of a server; at the end export what has gathered, unless in a ``hurry``."""
    exporter = span_exporter(os.environ)
    if exporter == "none":
        yield ServerTraces()
        return
    from jobqueue.telemetry.tracing import start_tracing  # noqa: PLC0415 - loads OpenTelemetry

    tracing = start_tracing("jq-server", exporter, settings.tracing.process_as)
    export_s = min(EXPORT_LIMIT_S, _EXPORT_SHARE * settings.server.shutdown_grace_period_s)
    try:
        yield ServerTraces(tracing.submitter, (CallContext(tracing.called).around,), export_s)
    finally:
        await finishes_before(hurry, tracing.close(), export_s)


@asynccontextmanager
async def worker_traces(settings: Settings, hurry: asyncio.Event) -> AsyncIterator[WorkerTraces]:
    """Do the same for a worker."""
    exporter = span_exporter(os.environ)
    if exporter == "none":
        yield WorkerTraces()
        return
    from jobqueue.telemetry.tracing import start_tracing  # noqa: PLC0415 - loads OpenTelemetry

    tracing = start_tracing("jq-worker", exporter, settings.tracing.process_as)
    try:
        yield WorkerTraces(tracing.leases, tracing.followed)
    finally:
        await finishes_before(hurry, tracing.close(), EXPORT_LIMIT_S)
