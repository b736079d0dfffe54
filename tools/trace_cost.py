"""What traces cost a worker per attempt: `python -m tools.trace_cost`.

Measures only what surrounds an attempt (claim, run, settlement), on leases that answer at once;
spans are made and ended and go to an exporter that drops them.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from uuid import uuid4

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Completed
from jobqueue.telemetry.tracing import Tracing
from jobqueue.worker.around import Around

_ROUNDS, _JOBS = 7, 2_000
_PARENT = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
_OUTCOME = Completed(b"")


class Instant:
    """Leases that have one job for whoever asks. Only what is measured is there."""

    def __init__(self) -> None:
        self.job = LeasedJob(
            Lease(1, 1), uuid4(), "q", "t", b"", 0, 1, True, 3, None, trace_context=_PARENT
        )

    async def claim(self, n: int, *, running: bool) -> list[LeasedJob]:
        """Return the job."""
        return [self.job] if running and n else []

    async def settle(self, job: LeasedJob, outcome: object) -> bool:
        """Take it back."""
        return outcome is _OUTCOME and job.lease == self.job.lease


class Dropping(SpanExporter):
    """Takes spans and forgets them."""

    def export(self, spans: Sequence[Any]) -> SpanExportResult:
        """Forget."""
        return SpanExportResult.SUCCESS if spans else SpanExportResult.FAILURE


async def _bare(leases: Any) -> None:
    for _ in range(_JOBS):
        (job,) = await leases.claim(1, running=True)
        await leases.settle(job, _OUTCOME)


async def _followed(leases: Any, around: Around) -> None:
    for _ in range(_JOBS):
        (job,) = await leases.claim(1, running=True)
        scope: AbstractContextManager[Any] = around(job)
        with scope as trail:
            trail.ended(_OUTCOME)
            await leases.settle(job, _OUTCOME)


async def _best_us(run: Callable[[], Awaitable[None]]) -> float:
    """Return the least microseconds of CPU a job of several rounds: noise only ever adds."""
    took = []
    for _ in range(_ROUNDS):
        gc.collect()
        begun = time.process_time()
        await run()
        took.append(time.process_time() - begun)
    return min(took) / _JOBS * 1e6


async def main() -> None:
    """Print the figures."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    tracing = Tracing(provider)
    leases: Any = Instant()
    around = tracing.followed("w").around
    assert around is not None
    bare = await _best_us(partial(_bare, leases))
    on = await _best_us(partial(_followed, tracing.leases(leases), around))
    print(f"three spans: {on - bare:.0f} us a job")
    await tracing.close()


if __name__ == "__main__":
    asyncio.run(main())
