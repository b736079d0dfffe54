"""What a worker and its handler processes say to each other: a JSON head and raw bytes.

Two lengths, big-endian, then the two parts. No pickle: a handler process runs foreign code, and
nothing it writes may run in the worker.
"""

import asyncio
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from jobqueue.domain.limits import MIB, Limits
from jobqueue.domain.outcome import Completed, Failed, Outcome, Postponed, Refused

_LENGTHS = struct.Struct(">II")
_HEAD_BYTES, _BODY_BYTES = MIB, Limits().result_bytes
"""Of an answer: an error text in JSON, a result."""


class Channel(Protocol):
    """The blocking side: a buffered file over a socket."""

    def read(self, size: int, /) -> bytes:
        """Return ``size`` bytes, fewer at the end."""
        ...

    def write(self, data: bytes, /) -> int:
        """Take bytes to send."""
        ...

    def flush(self) -> None:
        """Send them."""
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    head: Mapping[str, Any]
    body: bytes = field(default=b"", repr=False)

    def pack(self) -> bytes:
        """Return the bytes to send."""
        head = json.dumps(self.head).encode()
        return _LENGTHS.pack(len(head), len(self.body)) + head + self.body

    def numbered(self, number: int) -> "Frame":
        """Return it with a number, which the answer will bear."""
        return replace(self, head={**self.head, "number": number})

    def answering(self, asked: "Frame") -> "Frame":
        """Return it as the answer to ``asked``."""
        return self.numbered(asked.head["number"])


async def receive(reader: asyncio.StreamReader, number: int) -> Frame:
    """Read the answer to what was asked under ``number``.

    Raises EOFError or OSError when the other side is gone, ValueError when it says anything else:
    a handler can write to whatever its process has open.
    """
    sizes = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
    if sizes[0] > _HEAD_BYTES or sizes[1] > _BODY_BYTES:
        raise ValueError(f"no answer has {sizes} bytes")
    head = json.loads(await reader.readexactly(sizes[0]))
    if not isinstance(head, dict) or head.get("number") != number:
        raise ValueError("the answer is not to what was asked")
    return Frame(head, await reader.readexactly(sizes[1]))


def receive_blocking(file: Channel) -> Frame | None:
    """Read one frame; None at the end of the file."""
    raw = file.read(_LENGTHS.size)
    if len(raw) < _LENGTHS.size:
        return None
    head_size, body_size = _LENGTHS.unpack(raw)
    return Frame(json.loads(file.read(head_size)), file.read(body_size))


def outcome_frame(outcome: Outcome, *, last: bool = False) -> Frame:
    """Return an outcome as it crosses the socket."""
    match outcome:
        case Completed(result, truncated):
            head = {"end": "completed", "empty": result is None, "truncated": truncated}
            return Frame(head | {"last": last}, result or b"")
        case Postponed(delay_s, detail):
            return Frame({"end": "postponed", "delay_s": delay_s, "text": detail, "last": last})
        case Refused(error):
            return Frame({"end": "refused", "text": error, "last": last})
        case Failed(error):
            return Frame({"end": "failed", "text": error, "last": last})
        case _:
            raise TypeError(f"no handler ends in {outcome!r}")


def frame_outcome(frame: Frame) -> Outcome:
    """Return the outcome in a frame."""
    head = frame.head
    match head["end"]:
        case "completed":
            return Completed(None if head["empty"] else frame.body, truncated=head["truncated"])
        case "postponed":
            return Postponed(head["delay_s"], head["text"])
        case "refused":
            return Refused(head["text"])
        case _:
            return Failed(head["text"])
