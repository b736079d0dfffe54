"""A private PostgreSQL: created on first use, run as our child, stopped with us.

Made for trying the product, for development and for tests: one socket in a folder that only its
owner can enter, no TCP, no passwords.
"""

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from jobqueue.embedded.binaries import find_binaries
from jobqueue.embedded.child import Child
from jobqueue.embedded.cluster import create_cluster
from jobqueue.embedded.facts import (
    Facts,
    read_facts,
    remove_facts,
    write_facts,
)
from jobqueue.embedded.folder import (
    FolderLock,
    clear_remains,
    make_private,
    make_socket_dir,
    postmaster_line,
    remove_socket_dir,
)
from jobqueue.embedded.identity import choose_identity
from jobqueue.errors import EmbeddedError

_PORT = 5432
_START_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.02
_LOG_TAIL_BYTES = 2000

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
        with self._changing:
            make_private(self.data_dir)
            self._lock.take()
            try:
                self._start_locked()
            except BaseException:
                self._stop()
                raise

    def stop(self) -> None:
        """Stop the server (fast: open transactions are rolled back). Harmless when stopped."""
        with self._changing:
            self._stop()

    def revive(self) -> bool:
        """Start the server again if it ended by itself; return whether it had.

        Raises EmbeddedError when it does not come up; the next call tries again.
        """
        with self._changing:
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
            remove_socket_dir(Path(self._facts.socket_dir))
            self._facts = None
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
        self._remove_old_run()
        identity = choose_identity()
        identity.own(self.data_dir)
        identity.require_access(self.data_dir, self._binaries.folder)
        create_cluster(self._pgdata, self._binaries, identity)
        socket_dir = make_socket_dir(self.data_dir)
        identity.own(socket_dir)
        self._child = Child(identity.command(self._command(socket_dir)), self._log)
        self._facts = Facts(str(socket_dir), _PORT, self._child.pid, self._binaries.major)
        self._await_ready(self._child)
        write_facts(self.data_dir, self._facts)

    def _command(self, socket_dir: Path) -> list[str | Path]:
        settings = self._settings | {"unix_socket_directories": str(socket_dir)}
        options = [part for pair in settings.items() for part in ("-c", "=".join(pair))]
        return [self._binaries.postgres, "-D", self._pgdata, "-p", str(_PORT), *options]

    def _remove_old_run(self) -> None:
        clear_remains(self._pgdata)
        old = read_facts(self.data_dir)
        if old is not None:
            remove_socket_dir(Path(old.socket_dir))
            remove_facts(self.data_dir)
        if self._log.exists():
            self._log.replace(self._log.with_suffix(".log.1"))

    def _await_ready(self, child: Child) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        # The eighth line of the pid file is how pg_ctl knows, too.
        while postmaster_line(self._pgdata, 7) != "ready":
            if child.ended.wait(_LOOK_AGAIN_S) or time.monotonic() > deadline:
                raise EmbeddedError(f"PostgreSQL did not start: {_tail(self._log)}")


def _tail(log: Path) -> str:
    try:
        return log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()
    except OSError:
        return "it left no log"
