"""Loads the statements of ``store/sql`` once; asking for one that is not there fails at import."""

from functools import cache
from importlib import resources

_FOLDER = resources.files("jobqueue.store") / "sql"


@cache
def statement(name: str) -> str:
    """Return the text of ``sql/<name>.sql``. Raises FileNotFoundError when there is none."""
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


def names() -> list[str]:
    """Return the names of all statements, sorted."""
    return sorted(f.name.removesuffix(".sql") for f in _FOLDER.iterdir() if f.name.endswith(".sql"))
