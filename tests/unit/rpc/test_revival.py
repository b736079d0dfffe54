"""The loop that opens a door again."""

from typing import cast

from jobqueue.errors import Unavailable
from jobqueue.rpc.server import Revival, RpcServer
from jobqueue.runtime.clock import ManualClock
from tests.support.waiting import eventually


class Door:
    """One that has crashed, and whose port is taken until it is ``free``."""

    free = serving = False
    tries = 0

    async def crashed(self, _within_s: float) -> BaseException | None:
        return None if self.serving else ValueError()

    async def reopen(self) -> None:
        self.tries += 1
        if not self.free:
            raise Unavailable("cannot listen", reason="PORT_TAKEN")
        self.serving = True

    async def tried_again(self) -> None:
        """Wait for one more try that was begun after this call."""
        seen = self.tries

        async def look() -> bool:
            return self.tries > seen + 1 or self.serving

        await eventually(look, what="one more try")


async def test_a_door_that_stays_shut_is_no_progress_though_it_is_tried_again() -> None:
    door, clock = Door(), ManualClock()
    revival = Revival(cast("RpcServer", door), "grpc", clock)
    await revival.start()
    try:
        await door.tried_again()
        assert not revival.stuck_s
        clock.advance(31.0)
        await door.tried_again()
        assert revival.stuck_s == 31.0
        door.free = True
        await door.tried_again()
        assert revival.stuck_s is None
    finally:
        await revival.stop()
