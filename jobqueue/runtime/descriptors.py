"""How many files a process may have open: each connection of a caller is one."""

import contextlib
import resource


def allow_many_descriptors() -> None:
    """Raise this process's soft limit to the hard one. The usual soft limit is 1,024.

    Left as it is where the system refuses, as macOS does for a hard limit without end.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
