"""Shows workers, and passes on what an operator asks of one (R-4.5, R-4.7)."""

from jobqueue.domain.worker import Worker, WorkerCommand
from jobqueue.errors import NotFound
from jobqueue.store import workers as store
from jobqueue.store.faults import retrying
from jobqueue.store.pool import Pool


class Workers:
    """The registry of workers, for operators."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list(self) -> list[Worker]:
        """Return all registered workers by id."""
        return await retrying(lambda: store.list_workers(self._pool))

    async def session_key(self) -> bytes:
        """Return what the sessions of remote workers are signed with; for servers only."""
        return await retrying(lambda: store.get_session_key(self._pool))

    async def drain(self, worker_id: str) -> None:
        """Let a worker finish what it runs and claim nothing more. Raises NotFound."""
        await self._command(worker_id, WorkerCommand.DRAIN)

    async def shutdown(self, worker_id: str) -> None:
        """Drain a worker, then end it. Raises NotFound."""
        await self._command(worker_id, WorkerCommand.SHUTDOWN)

    async def _command(self, worker_id: str, command: WorkerCommand) -> None:
        known = await retrying(lambda: store.command_worker(self._pool, worker_id, command))
        if not known:
            raise NotFound("worker", worker_id)
