"""Files of certificates and keys."""

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jobqueue.domain.limits import MIB

_MAX_BYTES = 4 * MIB
"""Some times what the CAs of the world are together."""

_CERTIFICATE = re.compile(
    rb"-----BEGIN ([A-Z0-9 ]*CERTIFICATE)-----(.+?)-----END \1-----", re.DOTALL
)
_VERSION, _UTC_TIME, _LONG = 0xA0, 0x17, 0x80


@dataclass(frozen=True, slots=True)
class Validity:
    """From when and until when a certificate is valid."""

    begin: datetime
    end: datetime

    def holds(self, now: datetime) -> bool:
        """Tell whether it is valid at ``now``."""
        return self.begin <= now < self.end

    def waits_for(self, old: "Validity", now: datetime) -> bool:
        """Tell whether what replaces ``old`` must wait: not valid yet, while ``old`` still is."""
        return now < self.begin and old.holds(now)


def utc_now() -> datetime:
    """Return the time by which certificates are judged."""
    return datetime.now(UTC)


def read_pem(path: Path | str) -> bytes:
    """Return the content. Raises OSError, and ValueError for a file of no sensible size."""
    with Path(path).open("rb") as file:
        pem = file.read(_MAX_BYTES + 1)
    if len(pem) > _MAX_BYTES:
        raise ValueError(f"is larger than {_MAX_BYTES} bytes")
    return pem


def stamp(path: Path | str | None) -> tuple[int, int, int] | None:
    """Return something that differs once the file was written or exchanged; None: there is none."""
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found else None


def validity_of(pem: bytes) -> Validity | None:
    """Return when the first certificate is valid; None when that cannot be told.

    By hand: the library that reads certificates would cost every client 7 MB, and jq-ctl 70 ms.
    """
    found = _CERTIFICATE.search(pem)
    try:
        return None if found is None else _validity(binascii.a2b_base64(found[2]))
    except (IndexError, StopIteration, ValueError):
        return None


def _validity(der: bytes) -> Validity:
    _, certificate = next(_values(der))
    _, signed = next(_values(certificate))
    _serial, _algorithm, _issuer, dates, *_ = (v for t, v in _values(signed) if t != _VERSION)
    begin, end = (_instant(tag, value.decode("ascii")) for tag, value in _values(dates))
    return Validity(begin, end)


def _values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each value of a sequence."""
    while der:
        tag, size, begin = der[0], der[1], 2
        if size & _LONG:
            begin += size - _LONG
            size = int.from_bytes(der[2:begin])
        yield tag, der[begin : begin + size]
        der = der[begin + size :]


def _instant(tag: int, text: str) -> datetime:
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text, form).replace(tzinfo=UTC)
