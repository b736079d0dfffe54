"""As much of Kafka's wire protocol as it takes to refuse a batch in a broker's name.

Only Produce version 10, which the client library and the test broker agree on, with one topic in a
request, as the client library sends them.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass

_PRODUCE, _VERSION = 0, 10
_MESSAGE_TOO_LARGE = 10
_NO_OFFSET = -1


async def read_frame(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield requests, each with its length in front. Raises IncompleteReadError at the end."""
    while True:
        head = await reader.readexactly(4)
        yield head + await reader.readexactly(int.from_bytes(head, "big"))


def is_produce(frame: bytes) -> bool:
    """Tell whether a request brings records."""
    kind, version = struct.unpack_from(">hh", frame, 4)
    assert kind != _PRODUCE or version == _VERSION, f"Produce {version} is not known here"
    return bool(kind == _PRODUCE)


def largest_batch(frame: bytes) -> int:
    """Return the size of the largest batch in a Produce request; each is for one partition."""
    return max(_Request.read(frame).sizes.values())


def refusal(frame: bytes) -> bytes:
    """Return the answer that refuses the batches of a Produce request for their size."""
    request = _Request.read(frame)
    offsets = struct.pack(">qqq", _NO_OFFSET, _NO_OFFSET, _NO_OFFSET)
    partitions = [
        struct.pack(">ih", number, _MESSAGE_TOO_LARGE) + offsets + b"\1\0\0"
        for number in request.sizes
    ]
    name = bytes([len(request.topic) + 1]) + request.topic
    topics = b"\2" + name + bytes([len(partitions) + 1]) + b"".join(partitions) + b"\0"
    answer = request.correlation + b"\0" + topics + struct.pack(">i", 0) + b"\0"
    return struct.pack(">i", len(answer)) + answer


@dataclass(frozen=True)
class _Request:
    correlation: bytes
    topic: bytes
    sizes: dict[int, int]
    """Of the batch for each partition."""

    @classmethod
    def read(cls, frame: bytes) -> "_Request":
        at = 14 + int.from_bytes(frame[12:14], "big")  # behind the client's name
        assert frame[at : at + 2] == b"\0\0", "no tagged fields, no transaction"
        at += 2 + 2 + 4  # acks, timeout
        assert frame[at] == 2, "one topic"
        end = at + 1 + frame[at + 1]
        topic = frame[at + 2 : end]
        sizes = {}
        count, at = _varint(frame, end)
        for _ in range(count - 1):
            partition = int.from_bytes(frame[at : at + 4], "big")
            size, at = _varint(frame, at + 4)
            sizes[partition] = size - 1
            at += size - 1 + 1  # its tagged fields: none
        return cls(frame[8:12], topic, sizes)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1
