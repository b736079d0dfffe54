"""Loads the statements of ``store/sql`` once; asking for one that is not there fails at import."""

from functools import cache
from importlib import resources

_FOLDER = resources.files("jobqueue.store") / "sql"


_NAMES = {"BEGIN;": "begin", "COMMIT;": "commit", "ROLLBACK;": "rollback"}


@cache
def statement(name: str) -> str:
    """Return the text of ``sql/<name>.sql``. Raises FileNotFoundError when there is none."""
    text = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    _NAMES[text] = name
    return text


def name_of(text: str) -> str:
    """Return the name of a statement that was sent; ``other`` for those that are no file."""
    return _NAMES.get(text, "other")


def names() -> list[str]:
    """Return the names of all statements, sorted."""
    return sorted(f.name.removesuffix(".sql") for f in _FOLDER.iterdir() if f.name.endswith(".sql"))
