"""A remote worker that does what a script says, good or bad, and nothing else.

For tests of whatever depends on workers: it takes real jobs from a real server and runs none.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Iterable, Sequence
from types import TracebackType
from typing import Self

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.domain.outcome import Completed, Failed, Outcome
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.errors import FailedPrecondition, Unavailable
from jobqueue.remote import messages
from jobqueue.remote.link import Link
from jobqueue.runtime.service import Service
from jobqueue.transport import DEFAULT_ADDRESS, Route
from jobqueue.v1 import worker_service_pb2 as pb


class FakeWorker:
    """A scriptable remote worker.

        async with FakeWorker("localhost:50051", queues=["mail"], types=["send"]) as worker:
            (job,) = await worker.take()
            await worker.start(job)
            assert await worker.done(job, b"sent")

    It registers on entering and deregisters on leaving, unless it vanished. Leases are renewed
    only while ``keep_alive`` is on; without it they run out as those of a dead worker do. Methods
    raise ``jobqueue.errors``. Belongs to the loop it is entered on.
    """

    def __init__(  # noqa: PLR0913 - what a worker registers
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        worker_id: str | None = None,
        queues: Sequence[str] = ("default",),
        types: Sequence[str] = ("default",),
        concurrency: int = 1,
        prefetch: int = 0,
        route: Route | None = None,
    ) -> None:
        """``route`` replaces ``address`` where TLS or an API key is needed."""
        self.worker_id = worker_id or f"fake-{secrets.token_hex(4)}"
        self.session = ""
        self.times = pb.RegisterResponse()
        self._route = route or Route(address)
        self._facts = WorkerFacts(
            self.worker_id,
            socket.gethostname(),
            os.getpid(),
            tuple(queues),
            tuple(types),
            concurrency,
            "remote",
            "fake",
            prefetch,
        )
        self._link: Link | None = None
        self._jobs: AsyncGenerator[pb.AssignedJob, None] | None = None
        self._next: asyncio.Task[pb.AssignedJob] | None = None
        self._held: dict[Lease, LeasedJob] = {}
        self._pulse: _Pulse | None = None

    async def __aenter__(self) -> Self:
        self._link = Link(self._route)
        try:
            await self.register()
        except BaseException:
            await self._link.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._link is None:
            return
        try:
            await self.go_silent()
            await self.cut_stream()
            await self.deregister()
        finally:
            await self._link.close()

    # ------------------------------------------------------------------------------------ jobs

    async def take(self, n: int = 1, *, within_s: float = 15.0) -> list[LeasedJob]:
        """Return the next ``n`` jobs that are sent, ASSIGNED. Raises TimeoutError.

        The stream is opened by the first call and stays open.
        """
        taken: list[LeasedJob] = []
        async with asyncio.timeout(within_s):
            while len(taken) < n:
                job = messages.leased_job(await self._read())
                self._held[job.lease] = job
                taken.append(job)
        return taken

    async def nothing_within(self, seconds: float) -> bool:
        """Tell whether no job is sent for ``seconds``; one that comes is left for ``take``."""
        done, _ = await asyncio.wait({self._reading()}, timeout=seconds)
        return not done

    async def start(self, *jobs: LeasedJob) -> list[str]:
        """Start jobs; return STARTED, LOST or EXPIRED for each, in their order."""
        request = pb.StartJobsRequest(session=self.session, leases=_names(jobs))
        answer = await self._connection.start_jobs(request)
        states = {start.lease: start.state for start in answer.starts}
        words = pb.StartJobsResponse.State
        return [words.Name(states[name]).removeprefix("STATE_") for name in _names(jobs)]

    async def report(self, job: LeasedJob, outcome: Outcome) -> str:
        """Report how a job ended; return SETTLED, LOST or NOT_STARTED."""
        return (await self.report_all([(job, outcome)]))[0]

    async def report_all(self, outcomes: Sequence[tuple[LeasedJob, Outcome]]) -> list[str]:
        """Report many in one call; return SETTLED, LOST or NOT_STARTED for each."""
        jobs = [job for job, _ in outcomes]
        results = [messages.result_message(job.lease, outcome) for job, outcome in outcomes]
        request = pb.ReportResultsRequest(session=self.session, results=results)
        answer = await self._connection.report_results(request)
        states = {report.lease: report.state for report in answer.reports}
        words = pb.ReportResultsResponse.State
        told = [words.Name(states[name]).removeprefix("STATE_") for name in _names(jobs)]
        for job, word in zip(jobs, told, strict=True):
            if word != "NOT_STARTED":
                self._held.pop(job.lease, None)
        return told

    async def done(self, job: LeasedJob, result: bytes | None = None) -> bool:
        """Report success; False when the lease was lost."""
        return await self.report(job, Completed(result)) == "SETTLED"

    async def fail(self, job: LeasedJob, error: str = "it was scripted to fail") -> bool:
        """Report a failure; False when the lease was lost."""
        return await self.report(job, Failed(error)) == "SETTLED"

    async def progress(self, job: LeasedJob, percent: int | None = None, message: str = "") -> bool:
        """Say how far a job is; False when it is not running here."""
        words = [pb.Progress(lease=str(job.lease), percent=percent, message=message)]
        request = pb.ReportProgressRequest(session=self.session, progress=words)
        return not (await self._connection.report_progress(request)).lost

    async def release(self, *jobs: LeasedJob, strays: bool = False) -> int:
        """Hand jobs back, with ``strays`` also what was sent and never taken; return how many."""
        for job in jobs:
            self._held.pop(job.lease, None)
        request = pb.ReleaseJobsRequest(
            session=self.session,
            leases=_names(jobs),
            strays=strays,
            held=self._held_names,
        )
        return (await self._connection.release_jobs(request)).released

    # ----------------------------------------------------------------------------------- life

    async def register(self) -> None:
        """Register, or again under the same name; ``times`` is what the server answered."""
        self.times = await self._connection.register(messages.register_message(self._facts))
        self.session = self.times.session

    async def heartbeat(
        self,
        *jobs: LeasedJob,
        watched: Sequence[LeasedJob] = (),
        draining: bool = False,
    ) -> pb.HeartbeatResponse:
        """Beat once and renew ``jobs``; return the answer as it came."""
        return await self._connection.heartbeat(
            pb.HeartbeatRequest(
                session=self.session,
                draining=draining,
                leases=_names(jobs),
                watched=_names(watched),
            )
        )

    async def hears(self, *jobs: LeasedJob) -> WorkerCommand:
        """Beat once and return what an operator asks of this worker."""
        return messages.command(await self.heartbeat(*jobs))

    async def keep_alive(self) -> None:
        """From now on renew everything held, as often as the server wishes."""
        if self._pulse is None:
            self._pulse = _Pulse(self, messages.seconds(self.times.renew_interval))
            await self._pulse.start()

    async def beat_for_all(self) -> None:
        """Beat once and renew everything held."""
        await self.heartbeat(*self._held.values())

    async def go_silent(self) -> None:
        """Renew nothing from now on; the connection and the stream stay."""
        pulse, self._pulse = self._pulse, None
        if pulse is not None:
            await pulse.stop()

    async def cut_stream(self) -> None:
        """Cut the stream of jobs; the next ``take`` opens another one."""
        reading, self._next = self._next, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            await jobs.aclose()

    async def vanish(self) -> None:
        """Be gone without a word: no deregistration, no release."""
        await self.go_silent()
        await self.cut_stream()
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def deregister(self) -> None:
        """Say that this worker ends."""
        await self._connection.deregister(pb.DeregisterRequest(session=self.session))

    # --------------------------------------------------------------------------------- inside

    @property
    def _connection(self) -> Link:
        if self._link is None:
            raise FailedPrecondition("this worker is not connected (any more)")
        return self._link

    @property
    def _held_names(self) -> list[str]:
        return _names(self._held.values())

    def _reading(self) -> "asyncio.Task[pb.AssignedJob]":
        # A task that outlives its caller: to cancel a read would cut the stream.
        if self._next is None:
            if self._jobs is None:
                request = pb.StreamJobsRequest(session=self.session, held=self._held_names)
                self._jobs = self._connection.stream_jobs(request)
            self._next = asyncio.ensure_future(anext(self._jobs))
        return self._next

    async def _read(self) -> pb.AssignedJob:
        reading = self._reading()
        await asyncio.wait({reading})
        self._next = None
        try:
            return reading.result()
        except StopAsyncIteration as end:
            self._jobs = None
            raise Unavailable("the server ended the stream of jobs") from end
        except BaseException:
            self._jobs = None
            raise


class _Pulse(Service):
    """Renews what a fake worker holds."""

    def __init__(self, worker: FakeWorker, interval_s: float) -> None:
        super().__init__("fake-worker", interval_s=interval_s)
        self._worker = worker

    async def turn(self) -> float | None:
        """Renew once."""
        await self._worker.beat_for_all()
        return None


def _names(jobs: Iterable[LeasedJob]) -> list[str]:
    return [str(job.lease) for job in jobs]
