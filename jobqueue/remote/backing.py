"""A remote worker's keeper: beats and renews through the server, on a connection of its own."""

from collections.abc import Sequence

from jobqueue.domain.lease import Lease, Renewal
from jobqueue.domain.worker import WorkerCommand, WorkerFacts
from jobqueue.errors import NotFound
from jobqueue.remote import messages
from jobqueue.remote.link import Link
from jobqueue.v1 import worker_service_pb2 as pb


class ServerBacking:
    """The ``Backing`` of a keeper whose worker's leases are reached through a server."""

    def __init__(self, link: Link, *, draining: bool) -> None:
        self._link = link
        self._draining = draining

    async def register(self, facts: WorkerFacts) -> int:
        """Register the worker, or again; return its number."""
        return int((await self._link.register(messages.register_message(facts))).session)

    async def beat(self, worker: int, *, draining: bool) -> WorkerCommand | None:
        """Say that the worker lives; return what is asked of it, None when it is not known."""
        self._draining = draining
        try:
            return messages.command(await self._heartbeat(worker))
        except NotFound:
            return None

    async def renew(self, worker: int, leases: Sequence[Lease]) -> Sequence[Renewal]:
        """Extend leases in one call."""
        return messages.renewals(await self._heartbeat(worker, leases=leases))

    async def cancelled(self, worker: int, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Ask without renewing."""
        answer = await self._heartbeat(worker, watched=leases)
        return [Lease.parse(name) for name in answer.cancelled]

    async def close(self) -> None:
        """Cut the connection."""
        await self._link.close()

    async def _heartbeat(
        self, worker: int, *, leases: Sequence[Lease] = (), watched: Sequence[Lease] = ()
    ) -> pb.HeartbeatResponse:
        request = pb.HeartbeatRequest(
            session=str(worker),
            draining=self._draining,
            leases=map(str, leases),
            watched=map(str, watched),
        )
        request.clock.GetCurrentTime()
        return await self._link.heartbeat(request)
