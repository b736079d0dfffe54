"""What servers do all the time, done to both: one duty at a time, and each to its end."""

from collections.abc import Callable

from jobqueue.lease.takeover import Kind, Takeover, expired, unstarted
from jobqueue.store import queues as queue_store
from jobqueue.store import upkeep
from tests.model.compare import agree
from tests.model.database import Database
from tests.model.model import CRASH_LIMIT, Model

UNSTARTED_S, RETENTION_S = 60.5, 86_400.5
"""No sums of the times that pass: nothing says what holds at the very end of either."""

_MOST_STEPS = 100


class Server:
    """Performs duties by their names, in small pages."""

    def __init__(self, database: Database, model: Model) -> None:
        self._run = database.run
        self._db = database.db
        self._model = model

    def perform(self, duty: str) -> None:
        """Do what is due of one duty."""
        duties: dict[str, Callable[[], None]] = {
            "reap": self._reap,
            "reap_unstarted": self._reap_unstarted,
            "promote": self._promote,
            "expire": self._expire,
            "prune": self._prune,
            "roll": self._roll,
            "sweep": self._sweep,
        }
        duties[duty]()

    def _reap(self) -> None:
        self._model.reap()
        self._take_over(expired())

    def _reap_unstarted(self) -> None:
        self._model.reap_unstarted(UNSTARTED_S)
        self._take_over(unstarted(UNSTARTED_S))

    def _take_over(self, kind: Kind) -> None:
        takeover = Takeover(kind, page_size=3, crash_limit=CRASH_LIMIT)
        _until_done(lambda: self._run(takeover.step(self._db)).complete)

    def _promote(self) -> None:
        self._model.promote()
        _until_done(lambda: not self._run(upkeep.promote_jobs(self._db, 2)).count)

    def _expire(self) -> None:
        self._model.expire()
        _until_done(lambda: not self._run(upkeep.expire_jobs(self._db, 2)))

    def _prune(self) -> None:
        self._model.prune(RETENTION_S)
        after: int | None = 0

        def is_last() -> bool:
            nonlocal after
            page = upkeep.prune_jobs(self._db, after=after or 0, retention_s=RETENTION_S, limit=3)
            after = self._run(page).next_job
            return after is None

        _until_done(is_last)

    def _roll(self) -> None:
        self._run(upkeep.roll_stats(self._db, 3))

    def _sweep(self) -> None:
        """Servers do this when they have just counted, or at least within minutes."""
        self._model.sweep()
        self._run(upkeep.roll_stats(self._db))
        self._run(queue_store.cancel_queue_jobs(self._db, 1_000))


def _until_done(step: Callable[[], bool]) -> None:
    """Take steps as a server does, until one says that nothing is left."""
    agree("a duty comes to its end", True, any(step() for _ in range(_MOST_STEPS)))
