"""The table of a document that says which test notices which mutant; nobody writes it by hand."""

from collections.abc import Mapping, Sequence

HEAD = "| mutant | noticed by |"
_RULE = "|---|---|"


def rows_of(text: str) -> dict[str, str]:
    """Return the table: who notices, by the mutant's name. Raises ValueError without a table."""
    rows: dict[str, str] = {}
    for line in text.splitlines()[_place(text) :]:
        if not line.startswith("|"):
            break
        name, by = (cell.strip(" `") for cell in line.strip("|").split("|"))
        rows[name] = by
    return rows


def with_rows(text: str, rows: Mapping[str, str], order: Sequence[str]) -> str:
    """Return the text with these rows in its table, in this order; names not in it are left out."""
    lines, begin = text.splitlines(), _place(text)
    made = [f"| {name} | `{rows[name]}` |" for name in order if name in rows]
    return "\n".join([*lines[:begin], *made, *lines[begin + len(rows_of(text)) :]]) + "\n"


def _place(text: str) -> int:
    """Return the number of the first line below the head."""
    lines = text.splitlines()
    place = lines.index(HEAD)
    if lines[place + 1] != _RULE:
        raise ValueError(f"below {HEAD!r} there must be {_RULE!r}")
    return place + 2
