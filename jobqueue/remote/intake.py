"""Takes what the server sends: one stream, opened again whenever it ends."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from jobqueue.domain.lease import Lease, LeasedJob
from jobqueue.errors import NotFound, Unavailable
from jobqueue.remote.link import Link
from jobqueue.remote.messages import leased_job
from jobqueue.runtime.service import Service
from jobqueue.v1 import worker_service_pb2 as pb

_LOOK_S = 1.0


class Intake(Service):
    """Calls ``arrived`` with each job that is sent to ``worker``.

    ``held`` tells at each opening which leases the worker has; what else was sent to it went down
    with an earlier stream and is handed back by the server.
    """

    def __init__(
        self,
        link: Link,
        worker: int,
        held: Callable[[], Sequence[Lease]],
        arrived: Callable[[LeasedJob], None],
    ) -> None:
        super().__init__("intake", interval_s=_LOOK_S)
        self._link = link
        self._worker = worker
        self._held = held
        self._arrived = arrived
        self._reading: asyncio.Task[None] | None = None

    async def turn(self) -> float | None:
        """Read on for a while. Raises Unavailable when the stream ended; it is opened again."""
        # A task of its own: whoever stops to wait for a message of gRPC cuts the stream.
        reading = self._reading or asyncio.create_task(self._read())
        self._reading = reading
        await asyncio.wait({reading}, timeout=_LOOK_S)
        if reading.done():
            self._reading = None
            reading.result()
            raise Unavailable("the server ended the stream of jobs")
        return 0.0

    async def teardown(self) -> None:
        """Cut the stream."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None

    async def _read(self) -> None:
        request = pb.StreamJobsRequest(session=str(self._worker), held=map(str, self._held()))
        try:
            async with aclosing(self._link.stream_jobs(request)) as jobs:
                async for job in jobs:
                    self._arrived(leased_job(job))
        except NotFound as error:
            # The keeper hears the same with its next beat, and registers. As another worker than
            # before: then this one ends.
            raise Unavailable("the server does not know this worker now") from error
