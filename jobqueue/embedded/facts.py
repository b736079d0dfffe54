"""How other processes find a running embedded database: one small file in its data folder."""

import json
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from jobqueue.errors import EmbeddedError

DATABASE = "jobqueue"
SUPERUSER = "postgres"
FACTS_FILE = "jobqueue.json"
_CONNECT_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What a joiner must know. `pid` is the server's own, `port` only names its socket."""

    socket_dir: str
    port: int
    pid: int
    major: int

    @property
    def socket_path(self) -> Path:
        """The socket PostgreSQL listens on."""
        return Path(self.socket_dir) / f".s.PGSQL.{self.port}"

    def dsn(self, database: str = DATABASE) -> str:
        """Return a URL that asyncpg takes, and SQLAlchemy once the driver is added."""
        host = quote(self.socket_dir, safe="/")
        return f"postgresql://{SUPERUSER}@/{quote(database)}?host={host}&port={self.port}"


def write_facts(data_dir: Path, facts: Facts) -> None:
    """Publish the facts in one step, so that no reader sees half of them."""
    partial = data_dir / f"{FACTS_FILE}.partial"
    partial.write_text(json.dumps(asdict(facts), indent=2) + "\n", encoding="utf-8")
    partial.replace(data_dir / FACTS_FILE)


def read_facts(data_dir: Path) -> Facts | None:
    """Return what the last start published, or None. The server may be gone since."""
    try:
        return Facts(**json.loads((data_dir / FACTS_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def remove_facts(data_dir: Path) -> None:
    """Stop sending joiners here."""
    (data_dir / FACTS_FILE).unlink(missing_ok=True)


def read_dsn(data_dir: Path) -> str:
    """Return the DSN of the database running on `data_dir`.

    Raises EmbeddedError when none is running there, or it does not answer.
    """
    facts = read_facts(data_dir)
    if facts is None:
        raise EmbeddedError(
            f"no embedded database is running in {data_dir}; start one: jq-server --embedded"
        )
    try:
        _connect(facts)
    except OSError as error:
        raise EmbeddedError(
            f"the embedded database in {data_dir} (process {facts.pid}) does not answer:"
            f" {error.strerror or error}; start it again: jq-server --embedded"
        ) from error
    return facts.dsn()


def answers(facts: Facts) -> bool:
    """Say whether a server takes connections there."""
    try:
        _connect(facts)
    except OSError:
        return False
    return True


def _connect(facts: Facts) -> None:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        probe.connect(str(facts.socket_path))
