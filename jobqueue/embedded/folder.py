"""The data folder: who owns it, where the socket goes, and what a killed run leaves behind.

DIR/lock            held by the process that runs the database; names its pid
DIR/data/           PostgreSQL's own folder
DIR/socket/         the socket, unless its path were too long for the kernel: then below /tmp
DIR/jobqueue.json   facts for joiners, while it runs
DIR/postgres.log    the server's log; .1 is the run before, without failed tries to revive it
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from jobqueue.errors import EmbeddedError

# The kernel takes 107 bytes; PostgreSQL appends "/.s.PGSQL.5432".
_MAX_SOCKET_DIR = 85
_FAR_PARENT = Path("/tmp")  # noqa: S108 - what others made there is not used
_FAR_PREFIX = "jobqueue-"
_ORPHAN_PATIENCE_S = 20.0
_LOOK_AGAIN_S = 0.05


class FolderLock:
    """At most one process runs a database in a folder. Freed by the kernel when that one dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._fd: int | None = None

    def take(self) -> None:
        """Raise EmbeddedError naming the holder's pid when the folder is in use."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._sign(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Give the folder back. The file stays: removing it would race with another taker."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _sign(self, fd: int) -> None:
        if not _locked_soon(fd):
            holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            raise EmbeddedError(
                f"the embedded database in {self._path.parent} is already run by process {holder}"
            )
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode("ascii"))


def is_held(folder: Path) -> bool:
    """Say whether a process runs a database in a folder now, or is about to."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _locked(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _locked_soon(fd: int) -> bool:
    """Take the lock though somebody looks just now whether it is held."""
    if _locked(fd, fcntl.LOCK_EX):
        return True
    time.sleep(_LOOK_AGAIN_S)
    return _locked(fd, fcntl.LOCK_EX)


def _locked(fd: int, how: int) -> bool:
    """Take the lock, or answer that somebody else has it."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_private(folder: Path) -> Path:
    """Create `folder` (and parents) if missing; it alone becomes readable by its owner only."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise EmbeddedError(f"cannot use the folder {folder}: {error.strerror}") from error
    return folder


def make_socket_dir(data_dir: Path) -> Path:
    """Return a new private folder for the socket whose path the kernel accepts."""
    near = data_dir / "socket"
    if len(os.fsencode(near)) <= _MAX_SOCKET_DIR:
        return remake_socket_dir(near)
    # /tmp by name: TMPDIR may be as long as the path we are avoiding. Named after the folder, so
    # that workers find the next run where the last one was.
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    far = _FAR_PARENT / f"{_FAR_PREFIX}{digest}"
    if _is_anothers(far):
        return Path(tempfile.mkdtemp(prefix=_FAR_PREFIX, dir=_FAR_PARENT))
    return remake_socket_dir(far)


def remake_socket_dir(folder: Path) -> Path:
    """Make a socket folder of ours anew, where it was: joiners know no other address.

    What a killed server left in it may name a process that is a stranger's now.
    """
    remove_socket_dir(folder)
    folder.mkdir(mode=0o700)
    return folder


def remove_socket_dir(folder: Path) -> None:
    """Remove a socket folder of ours, after the server is gone."""
    shutil.rmtree(folder, ignore_errors=True)


def is_far(socket_dir: Path) -> bool:
    """Say whether a socket folder is outside of the data folder, by its name."""
    return socket_dir.parent == _FAR_PARENT and socket_dir.name.startswith(_FAR_PREFIX)


def _is_anothers(far: Path) -> bool:
    """Say whether somebody made it whom we cannot trust: a killed start of ours may have, too."""
    try:
        found = far.lstat()
    except FileNotFoundError:
        return False
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == stat.S_IRWXU
    return not private or found.st_uid != os.geteuid()


def clear_remains(pgdata: Path) -> None:
    """Make a folder startable after its last run was killed. The caller holds the lock.

    Whoever still runs on it has lost its owner: it is asked to stop and waited for. Raises
    EmbeddedError naming the process when it does not go.
    """
    deadline = time.monotonic() + _ORPHAN_PATIENCE_S
    while orphans := list(_running_on(pgdata)):
        if time.monotonic() > deadline:
            raise EmbeddedError(f"process {orphans[0]} still runs on {pgdata} and does not stop")
        _ask_to_stop(pgdata)
        time.sleep(_LOOK_AGAIN_S)
    if sys.platform == "linux":
        # Nobody runs here, so a pid file that names a living process names a stranger.
        (pgdata / "postmaster.pid").unlink(missing_ok=True)


def postmaster_line(pgdata: Path, number: int) -> str:
    """Return one line of PostgreSQL's pid file (0 is the pid, 7 the status), empty if absent."""
    try:
        lines = (pgdata / "postmaster.pid").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return dict(enumerate(lines.splitlines())).get(number, "").strip()


def _ask_to_stop(pgdata: Path) -> None:
    pid = postmaster_line(pgdata, 0)
    if pid.isdigit() and int(pid) in _running_on(pgdata):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGINT)


def _running_on(pgdata: Path) -> Iterator[int]:
    """Yield PostgreSQL's processes on `pgdata`: all work in it. Only Linux can tell."""
    if sys.platform != "linux":
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink() == pgdata and _is_postgres(entry):
                    yield int(entry.name)


def _is_postgres(process: Path) -> bool:
    """Tell it from a shell that looks around; after an upgrade its program may be gone."""
    return (process / "exe").readlink().name.removesuffix(" (deleted)") == "postgres"
