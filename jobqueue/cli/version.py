"""What ``--version`` prints: ``X.Y.Z (commit)``, the same for all three programs (R-1.1)."""

from pathlib import Path

UNKNOWN = "unknown"
_PACKAGE = Path(__file__).resolve().parent.parent


def version_number() -> str:
    """Return the version of the installed package."""
    from importlib import metadata  # noqa: PLC0415 - start-up time of --help

    return metadata.version("jobqueue")


def commit() -> str:
    """Return the commit this was built from, ``unknown`` when it was built without git.

    A built package carries it in a file; an editable installation asks its checkout.
    """
    carried = _PACKAGE / "_commit.txt"
    if carried.exists():
        return carried.read_text(encoding="ascii").strip() or UNKNOWN
    if not (_PACKAGE.parent / ".git").exists():
        return UNKNOWN
    import subprocess  # noqa: PLC0415 - start-up time of --help

    command = ["git", "-C", str(_PACKAGE.parent), "rev-parse", "--short=12", "HEAD"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return asked.stdout.strip() or UNKNOWN


def version_text() -> str:
    """Return ``X.Y.Z (commit)``."""
    return f"{version_number()} ({commit()})"
