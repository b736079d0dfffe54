"""Files of certificates and keys."""

from pathlib import Path

from jobqueue.domain.limits import MIB

_MAX_BYTES = 4 * MIB
"""Some times what the CAs of the world are together."""


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
