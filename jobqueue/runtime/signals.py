"""In-process signals: what just happened, for those who count and log it.

Lossy and synchronous. Typed instances are declared in the room that emits them; whoever wants to
know subscribes, so that a room never imports its listeners.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from jobqueue.runtime.log import Quiet, get_logger

T = TypeVar("T")
_log = get_logger(__name__)
_quiet = Quiet()


class Signal(Generic[T]):
    """One kind of happening. ``name`` is stable; it appears in logs.

    ``heard`` tells whether anybody subscribed: ask before making values of very many.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard = False
        self._subscribers: tuple[Callable[[T], None], ...] = ()

    def subscribe(self, subscriber: Callable[[T], None]) -> Callable[[], None]:
        """Call ``subscriber`` on each emit from now on; the returned function ends that."""
        self._subscribers = (*self._subscribers, subscriber)
        self.heard = True

        def unsubscribe() -> None:
            self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)
            self.heard = bool(self._subscribers)

        return unsubscribe

    def emit(self, value: T) -> None:
        """Tell every subscriber, in the order they came. Never raises: a listener is a guest."""
        for subscriber in self._subscribers:
            try:
                subscriber(value)
            except Exception as error:  # noqa: BLE001 - a guest must not break the house
                if _quiet.admits(f"{self.name}:{type(error).__name__}"):
                    _log.error("a subscriber failed", signal=self.name, error=error)
