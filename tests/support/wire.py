"""Bytes that no careful client sends: fields of a message at the ends of what the wire can carry.

They are put behind a good message. A parser takes the last value of a field, merges messages and
lengthens lists, so that what comes of it is the good message with something wrong in it.
"""

from collections.abc import Callable, Mapping

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_UNKNOWN = 536_870_911
_SHORT = 200
_MOST_FIELDS = 3
_DEEPEST = 3
MANY = 20_001
"""More than any list may hold: jobs of a batch, leases of a worker."""
_OFTEN = 30

INTEGERS = (
    *(0, 1, -1, 9, 10, 99, 127, 128, 999, 1_000, 1_001, 10_001, 65_536, 2**31 - 1, 2**31),
    *(-(2**31), 2**32, 999_999_999, 1_000_000_000, 315_576_000_000, 315_576_000_001),
    *(253_402_300_799, 253_402_300_800, -62_135_596_800, -62_135_596_801, 2**63 - 1, -(2**63)),
)
"""Around limits of ours, of widths, of durations, and of years 1 and 9999."""
TEXTS = (
    *(b"", b"a", b"*", b"none", b"default", b"x" * 128, b"x" * 129, b"x" * 257, b"x" * 5_000),
    *(b"a\x00b", b"a\nb", b" ", b"\t", b"\x1b[31mred", b"%s%n{}", b"'; DROP TABLE jobs; --"),
    "\ufeffbom \u202eltr \u2028 e\u0301".encode(),
    *("\N{OCTOPUS}".encode() * n for n in (1, 64, 65, 200)),
    *(b"0", b"-1", b"nan", b"9" * 5_000, b"1-1", b"9223372036854775807-9223372036854775807"),
    *(b"00000000-0000-4000-8000-000000000000", b"../../etc/passwd", b"Zm9v"),
    # A lone surrogate, a byte that begins nothing, an overlong NUL, a cut character.
    *(b"\xed\xa0\x80", b"a\xffb", b"\xc0\x80", b"\xf0\x9f\x90"),
)


@st.composite
def wrong_fields(draw: st.DrawFn, message: Descriptor, depth: int = _DEEPEST) -> bytes:
    """Draw one to three fields of a message, or one that it does not have."""
    fields = [field for field in message.fields if depth or field.message_type is None]
    count = draw(st.integers(1, _MOST_FIELDS))
    drawn = [draw(st.sampled_from([None, *fields])) for _ in range(count)]
    return b"".join(_field(draw, field, depth) for field in drawn)


def _field(draw: st.DrawFn, field: FieldDescriptor | None, depth: int) -> bytes:
    if field is None:
        return _delimited(_UNKNOWN, _text(draw))
    if field.message_type is not None:
        inner = wrong_fields(field.message_type, depth - 1)
        one = _delimited(field.number, draw(st.just(b"") | inner))
    else:
        one = _SCALARS[field.type](draw, field.number)
    return one * _times(draw, one) if field.is_repeated else one


def _times(draw: st.DrawFn, one: bytes) -> int:
    return draw(st.sampled_from([*[1] * _OFTEN, 2, MANY if len(one) <= _SHORT else 3]))


def _number(draw: st.DrawFn, number: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(draw(st.sampled_from(INTEGERS)))


def _double(draw: st.DrawFn, number: int) -> bytes:
    return _varint(number << 3 | _FIXED64) + draw(st.binary(min_size=8, max_size=8))


def _characters(draw: st.DrawFn, number: int) -> bytes:
    return _delimited(number, _text(draw))


def _text(draw: st.DrawFn) -> bytes:
    return TEXTS[draw(st.integers(0, len(TEXTS) - 1))]


_SCALARS: Mapping[int, Callable[[st.DrawFn, int], bytes]] = {
    FieldDescriptor.TYPE_INT32: _number,
    FieldDescriptor.TYPE_INT64: _number,
    FieldDescriptor.TYPE_BOOL: _number,
    FieldDescriptor.TYPE_ENUM: _number,
    FieldDescriptor.TYPE_STRING: _characters,
    FieldDescriptor.TYPE_BYTES: _characters,
    FieldDescriptor.TYPE_DOUBLE: _double,
}


def _delimited(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    """Return an integer as the wire has it; negative ones as 64 bits."""
    left, out = value % 2**64, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])
