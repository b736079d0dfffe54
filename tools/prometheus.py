"""Finds `promtool` and `prometheus`, or takes them from Debian's package: `make promtool`.

Those on the PATH are used; otherwise those in ``~/.cache/jobqueue/prometheus`` (or under
``XDG_CACHE_HOME``), which need neither root nor an installation.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

PROGRAMS = ("promtool", "prometheus")


def cache() -> Path:
    """Return the folder in which fetched programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "jobqueue" / "prometheus"


def find(name: str) -> Path | None:
    """Return a program of this name, None when there is none."""
    found = shutil.which(name) or shutil.which(name, path=cache())
    return Path(found) if found else None


def fetch() -> None:
    """Put both programs into the cache. Raises RuntimeError with what apt said."""
    cache().mkdir(parents=True, exist_ok=True)
    # Beside their place, so that they come there whole and at once, whoever else does the same.
    with TemporaryDirectory(prefix="fetching-", dir=cache()) as name:
        folder = Path(name)
        _download(folder)
        (package,) = folder.glob("*.deb")
        _run(folder, "dpkg-deb", "-x", package.name, "content")
        for program in PROGRAMS:
            (folder / "content" / "usr" / "bin" / program).replace(cache() / program)


def _download(folder: Path) -> None:
    """Put the package into the folder. Where apt knows of none, its lists are read anew."""
    download = ("apt-get", "download", "-qq", "prometheus")
    try:
        _run(folder, *download)
    except RuntimeError:
        if os.geteuid() != 0:
            raise
        _run(folder, "apt-get", "update", "-qq")
        _run(folder, *download)


def _run(folder: Path, *command: str) -> None:
    """Run a command of Debian's to its end."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise RuntimeError(f"{command[0]} is not here; put promtool on the PATH") from error
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def main() -> int:
    """Fetch what is missing, and name what there is; return the exit code."""
    try:
        if not all(map(find, PROGRAMS)):
            fetch()
    except RuntimeError as error:
        print(f"{error}\n(`sudo apt-get update` may help)", file=sys.stderr)
        return 1
    for name in PROGRAMS:
        print(find(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
