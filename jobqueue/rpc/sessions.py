"""Sessions of remote workers: names that only a server can make (R-4.2)."""

import hashlib
import hmac

from jobqueue.errors import FieldViolation, InvalidArgument, NotFound

_HIGHEST_WORKER = 2**31 - 1
_CODE_BITS = 64
_LONGEST = len(str((_HIGHEST_WORKER + 1) << _CODE_BITS))


class Sessions:
    """Names workers by their number and a code that depends on a key which all servers share.

    Numbers alone could be guessed, and with them a worker could report the jobs of another. To
    others a name is opaque; that it is a decimal number is of use to our own worker.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def name(self, worker: int) -> str:
        """Return the session of a registered worker; the same on every server."""
        return str(worker << _CODE_BITS | self._code(worker))

    def read(self, text: str) -> int:
        """Return the worker's number.

        Raises InvalidArgument for what cannot be a session, NotFound for one that was not made
        with this key, as after a change of database: whoever has it must register again.
        """
        if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
            raise InvalidArgument([FieldViolation("session", "is not one that Register answered")])
        worker = int(text) >> _CODE_BITS
        if worker > _HIGHEST_WORKER or not hmac.compare_digest(text, self.name(worker)):
            raise NotFound("worker", text, at="session")
        return worker

    def _code(self, worker: int) -> int:
        digest = hmac.digest(self._key, str(worker).encode(), hashlib.sha256)
        return int.from_bytes(digest[: _CODE_BITS // 8])
