"""The connection that hears wake-ups proves itself without being replaced."""

from jobqueue.runtime.service import TURN_ENDED, TurnEnded
from jobqueue.store.wakeups import Listener
from tests.support.waiting import eventually

_CHECKS = 5


async def test_a_listener_that_checks_its_connection_keeps_it(database: str) -> None:
    turns: list[TurnEnded] = []
    heard: list[frozenset[str]] = []
    unsubscribe = TURN_ENDED.subscribe(turns.append)
    listener = Listener(database, heard.append, check_interval_s=0.01)
    await listener.start()
    try:

        async def checked() -> bool:
            return len([turn for turn in turns if turn.service == listener.name]) > _CHECKS

        await eventually(checked, what="some checks")
    finally:
        await listener.stop()
        unsubscribe()
    assert listener.failures_total == 0
    assert heard == [frozenset()]  # one for the first connection; a new one would add its own
