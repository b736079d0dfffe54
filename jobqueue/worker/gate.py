"""A start gate: a program begins only when the guard knows its process group (R-4.10).

A worker can be killed between the start of a process and its word to the guard; nobody would then
end that process. So what is started is a shell that waits for one line and becomes the program.
If the worker dies first the line never comes, and the shell ends.
"""

import errno
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

_OPEN = b"\n"
_FED = 'read -r _ && exec "$@"'
_UNFED = f"{_FED} </dev/null"
_CARRIED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def gated(
    argv: Sequence[str], stdin: bytes | None, env: Mapping[str, str]
) -> tuple[Sequence[str], bytes | None]:
    """Return what to start in place of ``argv``, and what to write to its stdin once it is guarded.

    Nothing changes where the environment has a name that shells drop: the program must have it.
    Raises OSError when there is no such program: the shell would only say so on stderr.
    """
    _check_program(argv[0], env)
    if not all(map(_CARRIED.fullmatch, env)):
        return argv, stdin
    wait = _UNFED if stdin is None else _FED
    return ["/bin/sh", "-c", wait, "sh", *argv], _OPEN + (stdin or b"")


def _check_program(name: str, env: Mapping[str, str]) -> None:
    if shutil.which(name, path=env.get("PATH", os.defpath)) is None:
        code = errno.EACCES if Path(name).exists() else errno.ENOENT
        raise OSError(code, os.strerror(code))
