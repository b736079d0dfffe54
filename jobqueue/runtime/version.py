"""What `--version` and GetVersion say: the release, and the commit it was built from."""

import subprocess
from importlib import metadata, resources
from pathlib import Path

UNKNOWN = "unknown"
_BAKED = "_commit.txt"
_GIT_TIMEOUT_S = 5.0


def version() -> str:
    """Return the release, `X.Y.Z`."""
    return metadata.version("jobqueue")


def commit() -> str:
    """Return the commit the build baked in; in a checkout, git's; else `unknown`."""
    package = Path(str(resources.files("jobqueue")))
    baked = package / _BAKED
    if baked.is_file():
        return baked.read_text(encoding="ascii").strip()
    return _ask_git(package.parent)


def version_line() -> str:
    """Return `X.Y.Z (commit)`."""
    return f"{version()} ({commit()})"


def _ask_git(root: Path) -> str:
    # A repository further up is somebody else's.
    if not (root / ".git").exists():
        return UNKNOWN
    command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    try:
        asked = subprocess.run(  # git is wherever PATH says
            command, capture_output=True, text=True, check=True, timeout=_GIT_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return asked.stdout.strip() or UNKNOWN
