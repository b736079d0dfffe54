"""What a worker and its keeper process say to each other.

Frames on the keeper's stdin and stdout: four bytes of length, big-endian, then one JSON object.
Instants are readings of the monotonic clock, which all processes of one machine share.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from jobqueue.domain.lease import Lease
from jobqueue.domain.worker import WorkerFacts
from jobqueue.lease.settings import LeaseSettings

_HEADER = 4


@dataclass(frozen=True, slots=True)
class Begin:
    """First message to a keeper: whom it serves, and how. Never logged: it holds secrets.

    ``source`` is where the leases live, in words that the program of this keeper understands.
    """

    source: str
    settings: LeaseSettings
    facts: WorkerFacts
    worker: int | None  # known already when this keeper replaces one that died
    draining: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """Renew these from now on. ``proven_at`` is when the last statement that won them was sent."""

    leases: tuple[Lease, ...]
    proven_at: float


@dataclass(frozen=True, slots=True)
class Drop:
    """These are settled or given up: forget them."""

    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class Deadline:
    """Do not renew this lease after ``at``."""

    lease: Lease
    at: float


@dataclass(frozen=True, slots=True)
class Beat:
    """The worker's loop turned."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Show the worker as DRAINING from now on."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """A claim may have been lost on the wire: look for leases that nobody holds."""


@dataclass(frozen=True, slots=True)
class Disown:
    """Answer to ``Unknown``: these are not held; hand them back."""

    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """The worker's internal number."""

    worker: int


@dataclass(frozen=True, slots=True)
class Reach:
    """Whether beats arrive where the leases live; ``trouble`` says why not, empty: they do."""

    trouble: str


@dataclass(frozen=True, slots=True)
class Renewed:
    """The database renewed these by a statement sent at ``sent_at``."""

    leases: tuple[Lease, ...]
    sent_at: float


@dataclass(frozen=True, slots=True)
class Lost:
    """These are lost; ``why`` is for people."""

    leases: tuple[Lease, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """An operator wants these to end."""

    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's command to the worker, in the words of ``WorkerCommand``."""

    command: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The table has these under our name; which of them do you not hold?"""

    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """The keeper itself made so many transitions of this kind."""

    queue: str
    status: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Logged:
    """A line of the keeper's log, which has none of its own; ``exception`` as it is written."""

    logger: str
    level: int
    message: str
    context: dict[str, Any]
    exception: dict[str, Any] | None = None


Message = (
    Begin
    | Hold
    | Drop
    | Deadline
    | Beat
    | Draining
    | Reconcile
    | Disown
    | Registered
    | Reach
    | Renewed
    | Lost
    | Cancel
    | Command
    | Unknown
    | Moved
    | Logged
)
_KINDS: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        Begin,
        Hold,
        Drop,
        Deadline,
        Beat,
        Draining,
        Reconcile,
        Disown,
        Registered,
        Reach,
        Renewed,
        Lost,
        Cancel,
        Command,
        Unknown,
        Moved,
        Logged,
    )
}


def encode(message: Message) -> bytes:
    """Return one frame."""
    content = {f.name: _plain(getattr(message, f.name)) for f in fields(message)}
    body = json.dumps([type(message).__name__, content], default=str).encode()
    return len(body).to_bytes(_HEADER, "big") + body


class Decoder:
    """Turns a stream of bytes, cut anywhere, into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that ``data`` completes."""
        self._buffer += data
        while (frame := self._next_frame()) is not None:
            kind, content = json.loads(frame)
            yield _KINDS[kind](**{name: _typed(name, value) for name, value in content.items()})

    def _next_frame(self) -> bytes | None:
        if len(self._buffer) < _HEADER:
            return None
        end = _HEADER + int.from_bytes(self._buffer[:_HEADER], "big")
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[_HEADER:end])
        del self._buffer[:end]
        return frame


def _plain(value: object) -> object:
    match value:
        case LeaseSettings() | WorkerFacts():
            return {f.name: getattr(value, f.name) for f in fields(value)}
        case _:
            return value


def _typed(name: str, value: Any) -> Any:
    match name:
        case "leases":
            return tuple(map(Lease._make, value))
        case "lease":
            return Lease(*value)
        case "settings":
            return LeaseSettings(**value)
        case "facts":
            lists = {key: tuple(value[key]) for key in ("queues", "types")}
            return WorkerFacts(**value | lists)
        case _:
            return value
