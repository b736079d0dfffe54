"""A private PostgreSQL: created on first use, run as our child, stopped with us.

Made for trying the product, for development and for tests: one socket in a folder that only its
owner can enter, no TCP, no passwords.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Self

from jobqueue.embedded.binaries import find_binaries
from jobqueue.embedded.child import Child
from jobqueue.embedded.cluster import create_cluster
from jobqueue.embedded.facts import (
    Facts,
    answers,
    read_facts,
    remove_facts,
    write_facts,
)
from jobqueue.embedded.folder import (
    FolderLock,
    clear_remains,
    is_far,
    make_private,
    make_socket_dir,
    postmaster_line,
    remake_socket_dir,
    remove_socket_dir,
)
from jobqueue.embedded.identity import choose_identity
from jobqueue.embedded.progress import Progress, tail
from jobqueue.errors import EmbeddedError

_PORT = 5432
_LOOK_AGAIN_S = 0.02

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_ALWAYS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "200",
}
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres:
    """One cluster in `data_dir` with an empty database `jobqueue`.

    `durable=False` is for tests: a power cut may lose everything. `settings` are PostgreSQL's own.
    `start` and `stop` block (seconds) and may be called from any thread. Data is kept between
    runs. Raises EmbeddedError from the constructor when no binaries are found.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        durable: bool = True,
        settings: Mapping[str, str] = _NO_SETTINGS,
        bin_dir: Path | None = None,
    ) -> None:
        self.data_dir = Path(os.path.realpath(data_dir))
        self._binaries = find_binaries(bin_dir)
        self._settings = {**_ALWAYS, **({} if durable else _NOT_DURABLE), **settings}
        self._lock = FolderLock(self.data_dir)
        self._child: Child | None = None
        self._facts: Facts | None = None
        self._socket_dir: Path | None = None
        self._log_is_kept = False
        self.tell: Callable[[str], None] = lambda _line: None
        """Gets lines of PostgreSQL's log while it recovers, which may take long."""
        self._given_up = threading.Event()
        # A revival in one thread must not cross a stop in another.
        self._changing = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def dsn(self) -> str:
        """The URL of database `jobqueue`. Raises EmbeddedError unless started."""
        return self._running().dsn()

    @property
    def pid(self) -> int:
        """The server's process id. Raises EmbeddedError unless started."""
        return self._running().pid

    def start(self) -> None:
        """Create the cluster if it is new, run it, return once it takes connections.

        Raises EmbeddedError when another process runs it, or it does not come up; nothing is
        left running then.
        """
        with self._changing, _usable(self.data_dir):
            make_private(self.data_dir)
            self._lock.take()
            try:
                self._start_locked()
            except BaseException:
                self._stop()
                raise

    def stop(self) -> None:
        """Stop the server (fast: open transactions are rolled back). Harmless when stopped.

        A start or revival under way fails then.
        """
        self.give_up()
        with self._changing:
            self._stop()
            self._given_up.clear()

    def give_up(self) -> None:
        """Wait for no start or revival any longer, until ``stop`` was called."""
        self._given_up.set()

    def revive(self) -> bool:
        """Start the server again if it ended by itself; return whether it had.

        Raises EmbeddedError when it does not come up; the next call tries again.
        """
        with self._changing, _usable(self.data_dir):
            child = self._child
            if child is None or not child.ended.is_set():
                return False
            try:
                self._start_locked()
            except BaseException:
                if self._child is not None:
                    self._child.stop()
                raise
            return True

    def _stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None
        if self._facts is not None:
            remove_facts(self.data_dir)
            self._facts = None
        if self._socket_dir is not None:
            remove_socket_dir(self._socket_dir)
            self._socket_dir = None
        self._log_is_kept = False
        self._lock.release()

    def _running(self) -> Facts:
        if self._facts is None:
            raise EmbeddedError(f"the embedded database in {self.data_dir} is not started")
        return self._facts

    @property
    def _pgdata(self) -> Path:
        return self.data_dir / "data"

    @property
    def _log(self) -> Path:
        return self.data_dir / "postgres.log"

    def _start_locked(self) -> None:
        clear_remains(self._pgdata)
        self._remove_old_facts()
        identity = choose_identity()
        identity.own(self.data_dir)
        identity.require_access(self.data_dir, self._binaries.folder)
        create_cluster(self._pgdata, self._binaries, identity)
        socket_dir = self._empty_socket_dir()
        identity.own(socket_dir)
        self._keep_log()
        self._child = Child(identity.command(self._command(socket_dir)), self._log)
        self._facts = Facts(str(socket_dir), _PORT, self._child.pid, self._binaries.major)
        self._await_ready(self._child)
        self._log_is_kept = False
        write_facts(self.data_dir, self._facts)

    def _command(self, socket_dir: Path) -> list[str | Path]:
        settings = self._settings | {"unix_socket_directories": str(socket_dir)}
        options = [part for pair in settings.items() for part in ("-c", "=".join(pair))]
        return [self._binaries.postgres, "-D", self._pgdata, "-p", str(_PORT), *options]

    def _remove_old_facts(self) -> None:
        old = read_facts(self.data_dir)
        # A copy of a folder has the facts of its original, which may be running.
        if old is not None and is_far(Path(old.socket_dir)) and not answers(old):
            remove_socket_dir(Path(old.socket_dir))
        remove_facts(self.data_dir)

    def _empty_socket_dir(self) -> Path:
        """Return where the socket goes: a revival stays at the address that joiners know."""
        if self._socket_dir is None:
            self._socket_dir = make_socket_dir(self.data_dir)
            return self._socket_dir
        return remake_socket_dir(self._socket_dir)

    def _keep_log(self) -> None:
        """Keep the log of the last run; tries in vain to revive it overwrite their own only."""
        if self._log.exists() and not self._log_is_kept:
            self._log.replace(self._log.with_suffix(".log.1"))
        self._log_is_kept = True

    def _await_ready(self, child: Child) -> None:
        progress = Progress(self._log, self.tell)
        # The eighth line of the pid file is how pg_ctl knows, too.
        while postmaster_line(self._pgdata, 7) != "ready":
            if self._given_up.is_set():
                raise EmbeddedError("PostgreSQL was not ready when it was to stop")
            if child.ended.wait(_LOOK_AGAIN_S) or progress.is_over():
                raise EmbeddedError(f"PostgreSQL did not start: {tail(self._log)}")


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """Turn what the machine refuses, such as room or access, into one line."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise EmbeddedError(f"cannot use {where}: {error.strerror or error}") from error
