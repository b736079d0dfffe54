"""A real PgBouncer in transaction mode, with the configuration that the documents recommend."""

import configparser
import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from jobqueue.embedded.identity import choose_identity
from tests.support.waiting import eventually_sync

PORT = 6432

_DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
_SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin"
_REQUIRED = "JQ_REQUIRE_PGBOUNCER"


def find_pgbouncer() -> str:
    """Return the program. Without one the test is skipped, or fails where it must not be."""
    found = shutil.which("pgbouncer", path=_SEARCHED)
    if found is None and os.environ.get(_REQUIRED) == "1":
        pytest.fail(f"there is no pgbouncer, and {_REQUIRED} is set")
    if found is None:
        pytest.skip("there is no pgbouncer")
    return found


class PgBouncer:
    """Stands before the PostgreSQL of ``dsn``; serves every database of it."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._program = find_pgbouncer()
        self._dsn = dsn
        self._folder = folder
        self._identity = choose_identity()
        self._user = _parts(dsn)["user"]
        self._configure()
        self._identity.own(folder)
        self.start()

    def dsn(self, database: str) -> str:
        """Return the way to a database through it."""
        return f"postgresql://{self._user}@/{database}?host={self._folder}&port={PORT}"

    def start(self) -> None:
        """Run it, and return once it takes connections."""
        argv = [self._program, "--quiet", str(self._folder / "pgbouncer.ini")]
        self._process = subprocess.Popen(
            self._identity.command(argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually_sync(self._answers, within_s=30.0, what="PgBouncer")

    def kill(self) -> None:
        """End it at once, and every connection with it."""
        self._process.kill()
        self._process.wait()
        # What a killed one leaves behind keeps the next from starting.
        for left in (self._folder / "pgbouncer.pid", self._socket):
            left.unlink(missing_ok=True)

    def transactions(self, database: str) -> int:
        """Return how many transactions of a database it has passed on."""
        rows = self._console("SHOW STATS_TOTALS")
        return sum(int(row["xact_count"]) for row in rows if row["database"] == database)

    @contextmanager
    def limited_to(self, sessions: int) -> Iterator[None]:
        """Let it open so few connections to PostgreSQL for each database until the block ends."""
        path = self._folder / "pgbouncer.ini"
        before = path.read_text()
        ini = configparser.ConfigParser(interpolation=None)
        ini.read_string(before)
        ini["pgbouncer"]["default_pool_size"] = str(sessions)
        with path.open("w") as file:
            ini.write(file)
        self._console("RELOAD")
        try:
            yield
        finally:
            path.write_text(before)
            self._console("RELOAD")

    @property
    def _socket(self) -> Path:
        return self._folder / f".s.PGSQL.{PORT}"

    def _configure(self) -> None:
        """Write the documented file with our addresses, and without passwords."""
        ini = documented()
        (connect_query,) = re.findall(r"connect_query='[^']*'", ini["databases"]["jobqueue"])
        target = " ".join(f"{key}={value}" for key, value in _parts(self._dsn).items())
        ini["databases"] = {"*": f"{target} {connect_query}"}
        ini["pgbouncer"].update(
            {
                "listen_addr": "",
                "unix_socket_dir": str(self._folder),
                "auth_type": "trust",
                "auth_file": str(self._folder / "users"),
                "admin_users": self._user,
                "pidfile": str(self._folder / "pgbouncer.pid"),
                "logfile": str(self._folder / "pgbouncer.log"),
            }
        )
        (self._folder / "users").write_text(f'"{self._user}" ""\n')
        with (self._folder / "pgbouncer.ini").open("w") as file:
            ini.write(file)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "pgbouncer.log").read_text()
        try:
            return bool(self._console("SHOW VERSION"))
        except OSError:
            return False

    def _console(self, command: str) -> list[dict[str, str]]:
        """Ask the admin console, which speaks the simple protocol only: no driver of ours does."""
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(10.0)
            wire.connect(str(self._socket))
            fields = f"user\0{self._user}\0database\0pgbouncer\0\0".encode()
            wire.sendall(struct.pack("!II", 8 + len(fields), 196_608) + fields)
            list(_messages(wire))
            text = command.encode() + b"\0"
            wire.sendall(b"Q" + struct.pack("!I", 4 + len(text)) + text)
            return _table(_messages(wire))


def documented() -> configparser.ConfigParser:
    """Return the configuration that docs/operations.md shows."""
    (block,) = re.findall(r"^```ini\n(.*?)^```", _DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    ini = configparser.ConfigParser(interpolation=None)
    ini.read_string(block)
    return ini


@contextmanager
def running_pgbouncer(dsn: str) -> Iterator[PgBouncer]:
    """Run one before ``dsn`` until the block ends."""
    with TemporaryDirectory(prefix="jobqueue-pgbouncer-") as folder:
        bouncer = PgBouncer(dsn, Path(folder))
        try:
            yield bouncer
        finally:
            bouncer.kill()


def _parts(dsn: str) -> dict[str, str]:
    """Return what PgBouncer must know of a URL."""
    url = urlsplit(dsn)
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    parts = {
        "host": url.hostname or query["host"],
        "port": str(url.port or query.get("port", 5432)),
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
    }
    return {key: value for key, value in parts.items() if value}


def _messages(wire: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and body of each message up to ReadyForQuery."""
    with wire.makefile("rb") as stream:
        while head := stream.read(5):
            kind, length = head[:1], struct.unpack("!I", head[1:])[0]
            body = stream.read(length - 4)
            assert kind != b"E", body
            if kind == b"Z":
                return
            yield kind, body


def _table(messages: Iterator[tuple[bytes, bytes]]) -> list[dict[str, str]]:
    columns: list[str] = []
    rows = []
    for kind, body in messages:
        if kind == b"T":
            columns = _column_names(body)
        elif kind == b"D":
            rows.append(dict(zip(columns, _values(body), strict=True)))
    return rows


def _column_names(body: bytes) -> list[str]:
    names, rest = [], body[2:]
    while rest:
        name, _, rest = rest.partition(b"\0")
        names.append(name.decode())
        rest = rest[18:]  # types and sizes
    return names


def _values(body: bytes) -> list[str]:
    values, rest = [], body[2:]
    while rest:
        (length,) = struct.unpack("!i", rest[:4])
        size = max(length, 0)
        values.append(rest[4 : 4 + size].decode())
        rest = rest[4 + size :]
    return values
