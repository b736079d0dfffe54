"""A program on a terminal of a given size, as somebody sees and types it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tests.support.waiting import HANG_S, eventually_sync

_READ_S = 0.05


class Terminal:
    """Runs ``argv`` on a terminal of ``columns`` × ``rows``; a block of it ends the program."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], *, columns: int = 100, rows: int = 30
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._theirs = theirs
        self._seen = b""
        self.process = subprocess.Popen(
            argv,
            env={**env, "TERM": "xterm-256color", "NO_COLOR": "1"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._theirs)
        os.close(self._ours)

    def press(self, key: str) -> None:
        """Type a key."""
        os.write(self._ours, key.encode())

    def sees(self, text: str, within_s: float = HANG_S) -> None:
        """Wait until ``text`` comes, and forget what came before it."""

        def look() -> bool:
            self._read()
            return text in self.text()

        eventually_sync(look, within_s=within_s, what=f"{text!r} on the terminal")
        self._seen = self._seen.rpartition(text.encode())[2]

    def ended(self, within_s: float = HANG_S) -> int:
        """Return the exit code."""

        def look() -> bool:
            self._read()  # a program whose terminal nobody reads cannot end
            return self.process.poll() is not None

        eventually_sync(look, within_s=within_s, what="the end of the program")
        self._read()
        return self.process.returncode

    def text(self) -> str:
        """Return what came since the last text that was waited for."""
        return self._seen.decode(errors="replace")

    def modes(self) -> list[Any]:
        """Return the settings of the terminal."""
        return termios.tcgetattr(self._theirs)

    def _read(self) -> None:
        while select.select([self._ours], [], [], _READ_S)[0]:
            self._seen += os.read(self._ours, 65_536)
