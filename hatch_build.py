"""Build hook: puts the migrations and the commit into what is built.

`alembic/` lives beside the package, where its users look for it, but a wheel has no room there;
inside a wheel it is `jobqueue/_alembic`. The commit is asked of git once, at build time, because
an installed package has no repository to ask. An editable installation gets neither: it reads both
from the checkout.
"""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMIT_FILE = "jobqueue/_commit.txt"
UNKNOWN = "unknown"


class MigrationsAndCommit(BuildHookInterface[Any]):
    """Adds `_alembic/` (wheel) and `_commit.txt` (wheel and sdist)."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Extend the files of a standard build; leave an editable one alone."""
        if version == "editable":
            return
        root = Path(self.root)
        include = build_data["force_include"]
        include[str(self._write_commit(root))] = COMMIT_FILE
        if self.target_name == "wheel":
            include[str(root / "alembic")] = "jobqueue/_alembic"
            include[str(root / "alembic.ini")] = "jobqueue/_alembic/alembic.ini"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the scratch file again."""
        del version, build_data, artifact_path
        self._scratch.unlink(missing_ok=True)

    @property
    def _scratch(self) -> Path:
        return Path(self.directory) / ".commit"

    def _write_commit(self, root: Path) -> Path:
        """Write the commit to a scratch file beside what is built, and name it."""
        self._scratch.parent.mkdir(parents=True, exist_ok=True)
        self._scratch.write_text(_commit_of(root) + "\n", encoding="ascii")
        return self._scratch


def _commit_of(root: Path) -> str:
    """Return the checkout's commit, else the one an sdist carries, else `unknown`."""
    carried = root / COMMIT_FILE
    if not (root / ".git").exists():
        return carried.read_text(encoding="ascii").strip() if carried.exists() else UNKNOWN
    command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return asked.stdout.strip() or UNKNOWN
