"""Becomes PostgreSQL: run as a program, never imported for its work.

PostgreSQL refuses to run as root. Changing the identity between fork and exec inside a threaded
parent is unsafe, so this small program is started instead, changes its own identity and replaces
itself. It runs with `-I -S`, so it may use nothing but the standard library.

    launch.py IDENTITY PARENT_PID COMMAND…

IDENTITY is `same`, `namespace` (root only: a user namespace in which we are an ordinary user, so
no account is created and no file changes hands) or `nobody`. On Linux the command is told to stop
(SIGINT, a fast shutdown) when the thread that started it ends.
"""

import ctypes
import os
import pwd
import signal
import sys
from pathlib import Path

NAMESPACE_REFUSED = 97
PARENT_GONE = 98

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1
_INNER_ID = 1000


def _enter_namespace() -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    # Without this line the kernel refuses a map of groups.
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{_INNER_ID} {outer_uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{_INNER_ID} {outer_gid} 1", encoding="ascii")


def _become_nobody() -> None:
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)


def _die_with(parent: int) -> None:
    """Ask for the signal, then look: the parent may have gone before we asked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != parent:
        sys.exit(PARENT_GONE)


def main(identity: str, parent: str, *command: str) -> None:
    """Take the identity and become the command."""
    if identity == "namespace":
        try:
            _enter_namespace()
        except OSError:
            sys.exit(NAMESPACE_REFUSED)
    elif identity == "nobody":
        _become_nobody()
    # After the change of identity: that change clears the request.
    _die_with(int(parent))
    os.execv(command[0], command)  # noqa: S606 - becoming the command is the purpose


if __name__ == "__main__":
    main(*sys.argv[1:])
