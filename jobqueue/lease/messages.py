"""What a worker and its keeper process say to each other.

Frames on the socket between them: four bytes of length, big-endian, then one JSON object.
What is said of every job, Hold and Drop, is packed instead: a letter, then numbers of eight bytes.
Instants are readings of the monotonic clock, which all processes of one machine share.
"""

import asyncio
import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

from jobqueue.domain.lease import Lease, new_lease
from jobqueue.domain.worker import WorkerFacts
from jobqueue.lease.settings import LeaseSettings

_HEADER = 4
_PIECE = 65_536
_HOLD, _DROP = b"H", b"D"
_INSTANT, _PAIR = struct.Struct("=d"), struct.Struct("=qq")


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
class Ask:
    """Nothing was heard of you for a while: are you there?"""


@dataclass(frozen=True, slots=True)
class Here:
    """Answer to ``Ask``: yes."""


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
    | Ask
    | Here
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
        Ask,
        Here,
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
    match message:
        case Hold(leases, proven_at):
            body = _HOLD + _INSTANT.pack(proven_at) + _packed(leases)
        case Drop(leases):
            body = _DROP + _packed(leases)
        case _:
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
            yield _decoded(frame)

    def _next_frame(self) -> bytes | None:
        if len(self._buffer) < _HEADER:
            return None
        end = _HEADER + int.from_bytes(self._buffer[:_HEADER], "big")
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[_HEADER:end])
        del self._buffer[:end]
        return frame


def _decoded(frame: bytes) -> Message:
    match frame[:1]:
        case b"H":
            (proven_at,) = _INSTANT.unpack_from(frame, 1)
            return Hold(_unpacked(frame[1 + _INSTANT.size :]), proven_at)
        case b"D":
            return Drop(_unpacked(frame[1:]))
    kind, content = json.loads(frame)
    return _KINDS[kind](**{name: _typed(name, value) for name, value in content.items()})


def _packed(leases: Sequence[Lease]) -> bytes:
    return struct.pack(f"={2 * len(leases)}q", *chain.from_iterable(leases))


def _unpacked(data: bytes) -> tuple[Lease, ...]:
    return tuple(map(new_lease, _PAIR.iter_unpack(data)))


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


async def read_some(reader: asyncio.StreamReader) -> bytes:
    """Return what the other one says next, for a ``Decoder``; nothing when it is gone."""
    with suppress(ConnectionError):  # it was killed, and left something unread
        return await reader.read(_PIECE)
    return b""
