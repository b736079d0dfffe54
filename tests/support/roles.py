"""The role of workers, as docs/operations.md makes it."""

import re
from pathlib import Path

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def worker_role(name: str = "jq_worker") -> str:
    """Return the statements of the document, for a role of this name."""
    (grants,) = re.findall(
        r"```sql\n(CREATE ROLE .*?)```", OPERATIONS.read_text("utf-8"), re.DOTALL
    )
    return str(grants).replace("jq_worker", name)
