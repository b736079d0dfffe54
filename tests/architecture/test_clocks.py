"""The database has the clock: what a program decides never depends on its own machine's date."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.test_shape import GENERATED, PACKAGE

TOLD_ONLY = {
    "cli/ctl/top.py": "when a frame was drawn",
    "lease/backing.py": "how far a worker's clock is off, which is shown",
    "rpc/admin_service.py": "since when a server has been up",
    "telemetry/leases.py": "spans begin at a date",
    "transport/pem.py": "certificates say from and until which date they are valid",
}
"""Where a program looks at its machine's date, and what for. None is about a job."""

_OF_A_CLASS = {"now", "utcnow", "today"}
_OF_TIME = {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "asctime"}
_REALTIME = {"CLOCK_REALTIME", "CLOCK_TAI"}


def dates_read(source: str) -> Iterator[int]:
    """Yield the lines in which a program asks what day or time it is."""
    tree = ast.parse(source)
    bare = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name in _OF_TIME | _REALTIME
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, value=ast.Name(id="time")) if name in (
                _OF_TIME | _REALTIME
            ):
                yield node.lineno
            case ast.Attribute(attr=name) if name in _OF_A_CLASS:
                yield node.lineno
            case ast.Name(id=name) if name in bare:
                yield node.lineno


def test_no_program_looks_at_the_date_of_its_machine_but_to_tell_it() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.parent not in GENERATED
        and any(True for _ in dates_read(path.read_text(encoding="utf-8")))
    }
    assert found == set(TOLD_ONLY)


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time\nstart(clock=time.time)",
        "from time import time_ns as t\nt()",
        "from datetime import datetime, UTC\ndatetime.now(UTC)",
        "import datetime\ndatetime.date.today()",
        "import time\ntime.clock_gettime(time.CLOCK_REALTIME)",
    ],
)
def test_a_look_at_the_date_is_seen(source: str) -> None:
    assert list(dates_read(source))


def test_a_clock_that_only_runs_is_no_date() -> None:
    assert not list(dates_read("import time\ntime.monotonic() - self.time.value"))
