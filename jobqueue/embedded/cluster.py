"""Creates the files of a new PostgreSQL cluster."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jobqueue.embedded.binaries import Binaries
from jobqueue.embedded.facts import DATABASE, SUPERUSER
from jobqueue.embedded.identity import Identity, clean_environment
from jobqueue.errors import EmbeddedError

_INIT_TIMEOUT_S = 120.0
_SAID_BYTES = 2000


def create_cluster(pgdata: Path, binaries: Binaries, identity: Identity) -> None:
    """Make `pgdata` a cluster with database `jobqueue`, all or nothing; keep one that is there.

    Raises EmbeddedError when it belongs to another major version, or cannot be made.
    """
    version = pgdata / "PG_VERSION"
    if version.exists():
        found = version.read_text(encoding="ascii").strip()
        if found != str(binaries.major):
            raise EmbeddedError(
                f"{pgdata} was made by PostgreSQL {found}; these programs are {binaries.major}"
            )
        return
    partial = pgdata.with_name("data.partial")
    shutil.rmtree(partial, ignore_errors=True)
    _run_once(identity, [binaries.initdb, *_initdb_options(), "-D", partial])
    # Single-user mode needs neither a running server nor a driver; it would end well after an
    # error, too.
    single: list[str | Path] = [binaries.postgres, "--single", "-c", "exit_on_error=true"]
    single += ["-D", partial, "postgres"]
    _run_once(identity, single, f"CREATE DATABASE {DATABASE}\n")
    partial.rename(pgdata)


def _initdb_options() -> list[str]:
    # macOS has no C.UTF-8; C sorts the same way, by code point.
    locale = "C.UTF-8" if sys.platform == "linux" else "C"
    # --no-sync: a cluster lost to a power cut in its first seconds held nothing.
    return ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", f"--locale={locale}", "--no-sync"]


def _run_once(identity: Identity, argv: Sequence[str | Path], stdin: str = "") -> None:
    try:
        subprocess.run(
            identity.command(argv),
            input=stdin,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=_INIT_TIMEOUT_S,
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip()[-_SAID_BYTES:]
        raise EmbeddedError(f"cannot create the embedded database: {said}") from error
    except subprocess.TimeoutExpired as error:
        raise EmbeddedError(f"cannot create the embedded database: {error}") from error
