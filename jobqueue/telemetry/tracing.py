"""Traces of one program, as the rooms below meet them."""

from contextlib import AbstractContextManager

from opentelemetry.sdk.trace import TracerProvider

from jobqueue.lease.interface import Leases
from jobqueue.runtime.log import add_log_source
from jobqueue.submission.submitter import Submits
from jobqueue.telemetry.attempts import TracedAttempts
from jobqueue.telemetry.carriers import Metadata, called, log_names
from jobqueue.telemetry.leases import TracedLeases
from jobqueue.telemetry.provider import start_provider, stop_provider
from jobqueue.telemetry.submits import TracedSubmitter
from jobqueue.worker.worker import Followed

CHILD = "jobqueue.telemetry.child"
"""The program of a handler process whose handlers run in the trace of their job."""


def start_tracing(program: str, exporter: str, process_as: str) -> "Tracing":
    """Begin to export. ``exporter`` is otlp or console, ``process_as`` child or link."""
    return Tracing(start_provider(program, exporter), linked=process_as == "link")


class Tracing:
    """Makes traced parts. ``close`` exports what has gathered."""

    def __init__(self, provider: TracerProvider, *, linked: bool = False) -> None:
        self._provider = provider
        self._linked = linked
        self._tracer = provider.get_tracer("jobqueue")
        self._forget = add_log_source(log_names)

    def submitter(self, submitter: Submits) -> TracedSubmitter:
        """Return a way in that traces."""
        return TracedSubmitter(submitter, self._tracer)

    def leases(self, leases: Leases) -> TracedLeases:
        """Return leases whose claims and settlements are traced."""
        return TracedLeases(leases, self._tracer)

    def followed(self, worker: str) -> Followed:
        """Return what surrounds the attempts of a worker, here and in its handler processes."""
        return Followed(TracedAttempts(self._tracer, worker, linked=self._linked), CHILD)

    @staticmethod
    def called(metadata: Metadata) -> AbstractContextManager[None]:
        """Return the trace of whoever made a call."""
        return called(metadata)

    async def close(self) -> None:
        """Export what has gathered. A caller that is cancelled leaves the rest unsent."""
        self._forget()
        await stop_provider(self._provider)
