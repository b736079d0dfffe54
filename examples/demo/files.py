"""What is hashed: the files of the running Python's standard library."""

import hashlib
import os
import shutil
import stat
import sys
import sysconfig
from pathlib import Path

_LEFT_OUT = frozenset({"site-packages", "__pycache__"})
_ONE_LINER = """import hashlib, sys
with open(sys.stdin.buffer.read(), "rb") as file:
    print(hashlib.file_digest(file, "sha256").hexdigest())
"""


def list_files() -> list[Path]:
    """Return the path of every regular file outside site-packages and `__pycache__`, sorted."""
    found = []
    for folder, folders, names in os.walk(sysconfig.get_path("stdlib")):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        paths = (Path(folder, name) for name in names)
        found += [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    return sorted(found)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_sha256sum() -> bool:
    """Return True where the usual command is installed."""
    return bool(shutil.which("sha256sum") and shutil.which("xargs"))


def hash_command() -> list[str]:
    """Return a command that reads a path from stdin and prints the digest of that file."""
    if has_sha256sum():
        return ["xargs", "-0", "sha256sum", "--"]
    return [sys.executable, "-I", "-S", "-c", _ONE_LINER]


def printed_digest(result: bytes) -> str:
    """Return the digest from the output of either way of hashing."""
    # sha256sum marks a name that it had to escape by a backslash before the digest.
    words = result.decode().removeprefix("\\").split()
    return words[0] if words else ""
