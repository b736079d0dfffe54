"""The client for programs with an asyncio loop: the same calls, awaited."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

import grpc

from jobqueue.client import admin_calls, calls, event_calls
from jobqueue.client.calls import MAX_PAGE, Call
from jobqueue.client.connection import closing_told, connect_async
from jobqueue.client.follow import Follow
from jobqueue.client.policy import PolicyFields
from jobqueue.client.results import SystemStatus, Version
from jobqueue.client.resume import Resume
from jobqueue.domain.checkup import CheckProgress, Finding
from jobqueue.domain.event import ParkedEvent
from jobqueue.domain.job import (
    CancelOutcome,
    EventPage,
    Job,
    JobEvent,
    JobFilter,
    JobPage,
    JobSpec,
    Submitted,
)
from jobqueue.domain.queue import Queue, QueueStats
from jobqueue.domain.worker import Worker
from jobqueue.errors import JobQueueError
from jobqueue.transport import (
    DEFAULT_ADDRESS,
    DEFAULT_TIMEOUT_S,
    Route,
    Tls,
    Ways,
)

T = TypeVar("T")


class AsyncClient:
    """Submits jobs, follows them and administers queues and workers, over one connection.

    Belongs to the loop of its first call. Every method raises ``jobqueue.errors``. A call may take
    ``timeout_s`` seconds (``math.inf``: no end). While the server cannot be reached, calls that
    mean the same when repeated are sent up to five times, within about two seconds. A submission
    names itself, so repeating it never makes a second job.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        tls: Tls | None = None,
        api_key: str | None = None,
    ) -> None:
        """Connect at the first call. Raises InvalidArgument for arguments that cannot work."""
        self._route = Route(address, timeout_s, tls, api_key)
        self._ways = Ways(self._route, partial(connect_async, self._route))

    async def close(self) -> None:
        """End the connection and what is under way on it, which raises Unavailable.

        Later calls raise FailedPrecondition.
        """
        for connection in self._ways.close():
            await connection.channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------- jobs

    async def submit(self, spec: JobSpec, *, timeout_s: float | None = None) -> Submitted:
        """Store one job. NotFound: no such queue; AlreadyExists: key with other content."""
        return await self._run(calls.submit(spec), timeout_s)

    async def submit_many(
        self, specs: Sequence[JobSpec], *, timeout_s: float | None = None
    ) -> tuple[Submitted, ...]:
        """Store all of the jobs or none; answers in the order of ``specs``.

        At most 10,000 jobs and 32 MiB of payloads; ``batches`` cuts more into pieces.
        """
        return await self._run(calls.submit_many(specs), timeout_s)

    async def get(self, job_id: UUID | str, *, timeout_s: float | None = None) -> Job:
        """Return the job as it is now."""
        return await self._run(calls.get(job_id), timeout_s)

    async def wait(self, job_id: UUID | str, *, timeout_s: float | None = None) -> Job:
        """Return the job once it is DONE or DEAD_LETTERED.

        ``timeout_s`` bounds the whole wait (None: no bound); then DeadlineExceeded is raised,
        with the reason WAIT_TIMEOUT. An outage of the server after its first answer is sat out.
        """
        last: deque[Job] = deque(maxlen=1)
        async with aclosing(self.watch(job_id, timeout_s=timeout_s)) as versions:
            async for job in versions:
                last.append(job)
        return last.pop()

    async def watch(
        self, job_id: UUID | str, *, timeout_s: float | None = None
    ) -> AsyncGenerator[Job, None]:
        """Yield the job now and after every change, until it is terminal; see ``wait``."""
        follow = Follow(calls.job_text(job_id), timeout_s)
        while not follow.finished():
            error: JobQueueError | None = None
            try:
                async with aclosing(self._round(follow)) as jobs:
                    async for job in jobs:
                        yield job
            except JobQueueError as caught:
                error = caught
            if not follow.finished():
                await asyncio.sleep(follow.pause_s(error))

    async def list(
        self, job_filter: JobFilter | None = None, *, page_size: int = MAX_PAGE
    ) -> AsyncGenerator[Job, None]:
        """Yield all matching jobs, newest first, without payloads and results.

        Pages are fetched as they are needed and never skip or repeat a job.
        """
        token = ""
        while True:
            page = await self.list_page(job_filter, page_size=page_size, page_token=token)
            for job in page.jobs:
                yield job
            token = page.next_page_token
            if not token:
                return

    async def list_page(
        self,
        job_filter: JobFilter | None = None,
        *,
        page_size: int = 50,
        page_token: str = "",
        timeout_s: float | None = None,
    ) -> JobPage:
        """Return one page of at most ``page_size`` jobs (1 to 1000), after that of the token.

        Only an empty token says that there are no more: a page may have few jobs, or none.
        """
        call = calls.list_page(job_filter or JobFilter(), page_size, page_token)
        return await self._run(call, timeout_s)

    async def events(
        self, job_id: UUID | str, *, timeout_s: float | None = None
    ) -> tuple[JobEvent, ...]:
        """Return all transitions of the job, in order; ``timeout_s`` is for each page."""
        page = await self.events_page(job_id, timeout_s=timeout_s)
        found = [*page.events]
        while token := page.next_page_token:
            page = await self.events_page(job_id, page_token=token, timeout_s=timeout_s)
            found += page.events
        return tuple(found)

    async def events_page(
        self,
        job_id: UUID | str,
        *,
        page_size: int = MAX_PAGE,
        page_token: str = "",
        timeout_s: float | None = None,
    ) -> EventPage:
        """Return one page of at most ``page_size`` transitions, after that of the token."""
        call = calls.events_page(job_id, page_size, page_token)
        return await self._run(call, timeout_s)

    async def cancel(
        self, job_id: UUID | str, *, running: bool = False, timeout_s: float | None = None
    ) -> CancelOutcome:
        """Cancel a job that has not started; a running one only with ``running``.

        Raises FailedPrecondition when it runs and ``running`` is not set, or when it has ended.
        """
        return await self._run(calls.cancel(job_id, running=running), timeout_s)

    async def retry(self, job_id: UUID | str, *, timeout_s: float | None = None) -> Job:
        """Make a FAILED or DEAD_LETTERED job PENDING again, its counters at zero."""
        return await self._run(calls.retry(job_id), timeout_s)

    async def delete(self, job_id: UUID | str, *, timeout_s: float | None = None) -> None:
        """Delete a DONE or DEAD_LETTERED job; frees its idempotency key."""
        await self._run(calls.delete(job_id), timeout_s)

    # ----------------------------------------------------------------------------------- queues

    async def create_queue(
        self, name: str, *, timeout_s: float | None = None, **policy: Unpack[PolicyFields]
    ) -> Queue:
        """Make a queue; what is not said takes the server's defaults."""
        return await self._run(admin_calls.create_queue(name, policy), timeout_s)

    async def update_queue(
        self, name: str, *, timeout_s: float | None = None, **policy: Unpack[PolicyFields]
    ) -> Queue:
        """Set what is said, clear what is None, leave the rest."""
        return await self._run(admin_calls.update_queue(name, policy), timeout_s)

    async def get_queue(self, name: str, *, timeout_s: float | None = None) -> Queue:
        """Return one queue."""
        return await self._run(admin_calls.get_queue(name), timeout_s)

    async def list_queues(self, *, timeout_s: float | None = None) -> tuple[Queue, ...]:
        """Return all queues by name."""
        return await self._run(admin_calls.list_queues(), timeout_s)

    async def delete_queue(
        self, name: str, *, force: bool = False, timeout_s: float | None = None
    ) -> int:
        """Delete a queue; return how many jobs were cancelled for it.

        Raises FailedPrecondition when jobs are in it and ``force`` is not set. With ``force`` the
        answer comes when none is left, so give it the time that its running jobs may need to stop.
        """
        return await self._run(admin_calls.delete_queue(name, force=force), timeout_s)

    async def pause_queue(self, name: str, *, timeout_s: float | None = None) -> Queue:
        """Stop claims from a queue; submissions go on."""
        return await self._run(admin_calls.pause_queue(name), timeout_s)

    async def resume_queue(self, name: str, *, timeout_s: float | None = None) -> Queue:
        """Let claims go on."""
        return await self._run(admin_calls.resume_queue(name), timeout_s)

    async def queue_stats(
        self,
        queue: str | None = None,
        *,
        window_s: float | None = None,
        timeout_s: float | None = None,
    ) -> tuple[QueueStats, ...]:
        """Return the figures of one queue or of all; the window is one hour unless said."""
        return await self._run(admin_calls.queue_stats(queue, window_s), timeout_s)

    # --------------------------------------------------------------------- workers and the system

    async def list_workers(self, *, timeout_s: float | None = None) -> tuple[Worker, ...]:
        """Return all registered workers by id."""
        return await self._run(admin_calls.list_workers(), timeout_s)

    async def drain_worker(self, worker_id: str, *, timeout_s: float | None = None) -> None:
        """Let a worker finish what it runs and claim nothing more."""
        await self._run(admin_calls.drain_worker(worker_id), timeout_s)

    async def shutdown_worker(self, worker_id: str, *, timeout_s: float | None = None) -> None:
        """Drain a worker, then end it."""
        await self._run(admin_calls.shutdown_worker(worker_id), timeout_s)

    async def status(self, *, timeout_s: float | None = None) -> SystemStatus:
        """Return how server, database, queues and workers are."""
        return await self._run(admin_calls.status(), timeout_s)

    async def doctor(
        self, checks: Sequence[str] = (), *, quick: bool = False, timeout_s: float = math.inf
    ) -> AsyncGenerator[CheckProgress | Finding, None]:
        """Prove that the record is whole: yield a finding a check, and progress between them.

        ``checks`` names some (``domain.checkup.Check``); ``quick`` reads no table whole that only
        grows. A check-up of a million jobs takes minutes; ``timeout_s`` bounds all of it. Raises
        Aborted when the server runs one already.
        """
        call = admin_calls.doctor(checks, quick=quick)
        async with aclosing(self._stream(call, self._route.deadline(timeout_s))) as steps:
            async for step in steps:
                yield step

    async def version(self, *, timeout_s: float | None = None) -> Version:
        """Return version and commit of the server."""
        return await self._run(admin_calls.version(), timeout_s)

    # ------------------------------------------------------------------------------------- events

    async def tail_events(
        self,
        queue: str | None = None,
        *,
        types: Sequence[str] = (),
        after: int | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[JobEvent, None]:
        """Yield transitions of all jobs, of one queue, or of some types, such as ``job.failed``.

        Begins after an event id (``after``), else with what fits among the newest 1,000 of all;
        with ``follow`` without an end, and unless ``after`` is said with what comes. A stream that
        breaks is opened again where it was: nothing is left out or comes twice. Raises Unavailable
        when no server answers for 10 s.
        """
        resume = Resume(queue, types, after, follow=follow)
        while not resume.over:
            error: JobQueueError | None = None
            try:
                async with aclosing(self._stream(resume.call(), None)) as told:
                    async for each in told:
                        if (event := resume.news(each)) is not None:
                            yield event
            except JobQueueError as caught:
                error = caught
            await asyncio.sleep(resume.pause_s(error))

    async def parked_events(
        self, *, timeout_s: float | None = None
    ) -> AsyncGenerator[ParkedEvent, None]:
        """Yield the events that Kafka refused for good, by id; ``timeout_s`` is for each page."""
        after = 0
        while page := await self._run(event_calls.parked(after), timeout_s):
            for parked in page:
                yield parked
            after = page[-1].event.event_id

    async def resend_events(
        self,
        event_ids: Sequence[int] = (),
        *,
        everything: bool = False,
        timeout_s: float | None = None,
    ) -> int:
        """Send parked events to Kafka again; return how many. NotFound: none of them is parked."""
        return await self._run(event_calls.resend(event_ids, everything=everything), timeout_s)

    async def disconnect_kafka(self, *, force: bool = False, timeout_s: float | None = None) -> int:
        """Keep events for Kafka no longer, for good; return how many never reach it.

        Raises FailedPrecondition while a server publishes, and without ``force`` when events wait
        or are parked; NotFound when nothing is kept for Kafka.
        """
        return await self._run(event_calls.disconnect(force=force), timeout_s)

    # ------------------------------------------------------------------------------------- sending

    async def _run(self, call: Call[T], timeout_s: float | None) -> T:
        seconds, metadata = self._route.deadline(timeout_s), self._route.metadata()
        async with self._method(call) as method:
            try:
                answer = await method(call.request, timeout=seconds, metadata=metadata)
            except grpc.RpcError as error:
                raise self._ways.failed(error) from error
        return call.read(answer)

    async def _stream(self, call: Call[T], seconds: float | None) -> AsyncGenerator[T, None]:
        async with self._method(call) as method:
            stream = method(call.request, timeout=seconds, metadata=self._route.metadata())
            try:
                async for answer in stream:
                    yield call.read(answer)
            except grpc.RpcError as error:
                raise self._ways.failed(error) from error
            finally:
                stream.cancel()

    async def _round(self, follow: Follow) -> AsyncGenerator[Job, None]:
        """Ask for the job, then for its changes, as long as one stream lasts."""
        job = await self._run(calls.get(follow.job_id), follow.call_s(self._route.timeout_s))
        if follow.is_news(job):
            yield job
        if follow.finished():
            return
        changes = self._stream(calls.watch(follow.job_id), follow.stream_s())
        async with aclosing(changes):
            async for job in changes:
                if follow.is_news(job):
                    yield job
                if follow.finished():
                    return

    @asynccontextmanager
    async def _method(self, call: Call[T]) -> AsyncIterator[Any]:
        """Yield how to send the call."""
        way = self._ways.begin()
        try:
            with closing_told():
                yield way.connection.method(call)
        finally:
            for old in self._ways.end(way):
                await old.channel.close()
