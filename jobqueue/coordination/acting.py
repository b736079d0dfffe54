"""Whether this replica acts, or stands by because another one does (R-4.11).

What it promises, in the order of importance: somebody always acts; one at a time while Redis
works. The second may fail for a moment (a flushed Redis, a pause of the holder), and no harm comes
of it.

- Held: extended every third of its time. A holder that was paused for longer than a lock lives
  does not trust it any more, by its own monotonic clock, and stands by until Redis has answered.
- Held by another: asked again when that lock would end at the latest, so that a dead holder is
  replaced as soon as its lock is over.
- Redis is away, refuses or is slow: this replica acts anyway.
- The holder cannot do the work (say, it alone has lost PostgreSQL): it leaves the lock to others.
"""

import contextlib
from collections.abc import Sequence

from jobqueue.coordination.redis_lock import RedisLock
from jobqueue.coordination.signals import LOCK_CHANGED, LockChanged, LockState
from jobqueue.errors import Unavailable
from jobqueue.runtime.clock import SYSTEM_CLOCK, Clock
from jobqueue.runtime.service import Service

_TURNS_PER_TTL = 3
_TRUSTED_SHARE = 0.9
"""Of a lock's time; the rest is for the difference of two clocks' speeds."""
_STEPS_PER_TURN = 8
"""Connecting, logging in and three questions, each of which may use up its time-out."""
_BEYOND_EXPIRY_S = 0.002
_FAILURES = 5
"""Failed turns in a row after which a holder counts as unable; they take about three seconds."""


class ActingLock(Service):
    """Holds one lock, or tries to, and says whether the duties under it may act."""

    def __init__(
        self,
        name: str,
        lock: RedisLock,
        *,
        timeout_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``name`` is the lock's in signals and metrics; ``timeout_s`` that of one question."""
        interval_s = lock.ttl_s / _TURNS_PER_TTL
        # No jitter: a standby that looks late leaves a gap, and one of several wins anyway.
        super().__init__(
            f"lock-{name}",
            interval_s=interval_s,
            jitter=0.0,
            bound_s=interval_s + _STEPS_PER_TURN * timeout_s,
            clock=clock,
        )
        self.lock_name = name
        self.state = LockState.OFF
        self.cause = ""
        self._lock = lock
        self._trusted_until = 0.0
        self._guarded: Sequence[Service] = ()

    def guard(self, duties: Sequence[Service]) -> None:
        """Watch the duties that act under this lock: while one fails, others shall have it."""
        self._guarded = duties

    def may_act(self) -> bool:
        """Say whether to act now. Ask before each piece of work."""
        if self.state is LockState.HELD:
            return self._clock.monotonic() < self._trusted_until
        return self.state.acts_without

    async def turn(self) -> float | None:
        """Take, extend or give up the lock."""
        try:
            return await (self._give_up() if self._unable() else self._contend())
        except Unavailable as error:
            self._enter(LockState.UNAVAILABLE, error.message)
            return None

    async def teardown(self) -> None:
        """Give the lock back, so that another replica acts at once."""
        if self.state is LockState.HELD:
            with contextlib.suppress(Unavailable):  # it ends by itself
                await self._lock.release()
        self._enter(LockState.OFF)

    async def _contend(self) -> float | None:
        asked_at = self._clock.monotonic()
        # Extended first, whatever we believe: an answer that got lost may have given it to us.
        if await self._lock.extend() or await self._lock.acquire():
            self._trusted_until = asked_at + _TRUSTED_SHARE * self._lock.ttl_s
            self._enter(LockState.HELD)
            return None
        left_s = await self._lock.remaining_s()
        self._enter(LockState.STANDBY)
        return min(self.interval_s, left_s + _BEYOND_EXPIRY_S)

    async def _give_up(self) -> None:
        if self.state is not LockState.GIVEN_UP:
            await self._lock.release()
        self._enter(LockState.GIVEN_UP, "its work fails here")

    def _unable(self) -> bool:
        return any(duty.failures >= _FAILURES for duty in self._guarded)

    def _enter(self, state: LockState, cause: str = "") -> None:
        self.cause = cause
        if state is not self.state:
            self.state = state
            LOCK_CHANGED.emit(LockChanged(self.lock_name, state, cause))
