"""The keeper process of a worker on the database (see ``keeping``)."""

import asyncio

from jobqueue.lease.backing import DatabaseBacking
from jobqueue.lease.duties import CLAIM_FLIGHT_S, Reconciler
from jobqueue.lease.keeping import KeeperProcess, Pipe, run_keeper
from jobqueue.lease.messages import Begin, Disown, Message, Reconcile
from jobqueue.runtime.service import Service


class DatabaseKeeper(KeeperProcess):
    """Renews by statements of its own, and hands back leases whose claim was cut off."""

    def __init__(self, begin: Begin, pipe: Pipe, parent: int) -> None:
        backing = DatabaseBacking(begin.source, begin.settings, begin.facts, self._reconcile_soon)
        super().__init__(begin, pipe, parent, backing)
        self._reconciler = Reconciler(
            backing.hot,
            self.book,
            self.presence,
            pipe.tell,
            is_still=lambda: self.stall.still,
            renew_soon=self.renewer.wake,
        )
        self._handing_back: set[asyncio.Task[None]] = set()

    def duties(self) -> tuple[Service, ...]:
        """Return the loops of this keeper."""
        return (*super().duties(), self._reconciler)

    def worker_stands_still(self) -> None:
        """Look for what a claim of the worker brought that it cannot tell us of."""
        self._reconciler.wake()

    def hear(self, message: Message) -> None:
        """Do what the worker asks."""
        match message:
            case Reconcile():
                self._reconcile_soon()
            case Disown(leases):
                task = asyncio.create_task(self._reconciler.hand_back(leases))
                self._handing_back.add(task)
                task.add_done_callback(self._handed_back)
            case _:
                super().hear(message)

    def _handed_back(self, task: asyncio.Task[None]) -> None:
        """After a failure the rows are still there: the next turn finds them again."""
        self._handing_back.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._reconcile_soon()

    def _reconcile_soon(self) -> None:
        """Look when the claim that may have been cut off is old enough to be seen."""
        loop = asyncio.get_running_loop()
        loop.call_later(CLAIM_FLIGHT_S + 1.0, self._reconciler.wake)


if __name__ == "__main__":
    run_keeper(DatabaseKeeper)
