"""Programs on a machine whose date is wrong, by libfaketime."""

import contextlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest


def _library() -> Path | None:
    """Return the library to preload; the package around it is for patching one's own process."""
    package = importlib.util.find_spec("libfaketime")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"


LIBRARY = _library()


def sweep(since: float) -> None:
    """Remove what the library shares by memory since then, and a killed program leaves there."""
    for path in Path("/dev/shm").glob("*faketime_s[eh]m_*"):
        pid = int(path.name.rpartition("_")[2])
        with contextlib.suppress(FileNotFoundError):  # others sweep too
            if path.stat().st_mtime >= since and not psutil.pid_exists(pid):
                path.unlink()


class OtherClock:
    """A date for programs and all that they start; their seconds last as long as ever."""

    def __init__(self, file: Path, ahead_s: int) -> None:
        """``file`` is where the programs look how far they are ahead."""
        self._file = file
        self.set(ahead_s)

    def set(self, ahead_s: int) -> None:
        """Set it, also under programs that run: they notice within a second or two."""
        self.ahead_s = ahead_s
        written = self._file.with_suffix(".new")
        written.write_text(f"{ahead_s:+d}\n", encoding="ascii")
        written.rename(self._file)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show it to programs that are started meanwhile.

        Files keep their true dates: compiled modules must not look outdated, and be written anew.
        """
        environment = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            yield
