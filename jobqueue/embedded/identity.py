"""Under whose name PostgreSQL runs, and how a command is started under that name."""

import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from jobqueue.embedded import launch
from jobqueue.errors import EmbeddedError

# Python's own interpreter is the one program that is certainly there.
_NOTHING = (sys.executable, "-I", "-S", "-c", "")


class Identity(StrEnum):
    """How the database's processes are named to the kernel; see `launch`."""

    SAME = "same"
    NAMESPACE = "namespace"
    NOBODY = "nobody"

    def command(self, argv: Sequence[str | Path]) -> list[str]:
        """Wrap `argv` so that it runs as this identity and ends with the calling thread."""
        prefix = [sys.executable, "-I", "-S", launch.__file__, self.value, str(os.getpid())]
        return [*prefix, *map(str, argv)]

    def own(self, folder: Path) -> None:
        """Hand our own folder, and all below it, to this identity. Touches nothing above it."""
        if self is not Identity.NOBODY:
            return
        owner = pwd.getpwnam("nobody")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)

    def require_access(self, *paths: Path) -> None:
        """Raise EmbeddedError naming a path that this identity cannot reach."""
        if self is not Identity.NOBODY:
            return
        for path in paths:
            if not _succeeds(self.command(["/bin/ls", path])):
                raise EmbeddedError(
                    f"running as root where user namespaces are not permitted: the user nobody"
                    f" cannot read {path}; use a folder outside /root, or run as another user"
                )


def choose_identity() -> Identity:
    """Return SAME unless we are root; then a user namespace where the kernel permits one."""
    if os.geteuid() != 0:
        return Identity.SAME
    if sys.platform != "linux":
        return Identity.NOBODY
    permitted = _succeeds(Identity.NAMESPACE.command(_NOTHING))
    return Identity.NAMESPACE if permitted else Identity.NOBODY


def clean_environment() -> dict[str, str]:
    """Return ours without PG* and LC_*: those would quietly change what is created and run."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
    return ours | {"TZ": "UTC"}


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
