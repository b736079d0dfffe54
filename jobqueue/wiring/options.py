"""Choices of the command line that are no settings. Light: the programs import this first."""

from dataclasses import dataclass
from pathlib import Path

from jobqueue.embedded.binaries import default_data_dir, find_binaries


@dataclass(frozen=True, slots=True)
class EmbeddedChoice:
    """Use the private PostgreSQL; ``data_dir`` None means the usual folder."""

    data_dir: Path | None = None

    def folder(self) -> Path:
        """Return where its data lives. Raises EmbeddedError when none is installed."""
        return self.data_dir or default_data_dir(find_binaries().major)
