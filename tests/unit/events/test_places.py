"""Places in the stream as text: they come back as they were, and nothing else passes for one."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from jobqueue.errors import InvalidArgument
from jobqueue.events.places import Place, read_place, write_place
from jobqueue.store.events import BEGINNING, Step, TailStart

AT = datetime(2026, 1, 31, 18, 0, 0, 5, tzinfo=UTC)
SOME = TailStart("100:120:100,105", AT, 7_000, "a/1/b/c", standby=False)


@pytest.mark.parametrize("step", [Step(BEGINNING, SOME), Step(SOME, SOME, again=6_000)])
def test_a_place_comes_back_as_it_was(step: Step) -> None:
    place = Place(step, 6_999)
    assert read_place(write_place(place)) == place


SAID = ["1:1:", "0001-01-01T00:00:00+00:00", 0, ""]


def written(start: Any, again: Any = None, after: Any = 0) -> str:
    raw = json.dumps([start, SAID, again, after]).encode()
    return base64.urlsafe_b64encode(raw).decode()


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "é",
        written(None),
        written("abcd"),
        written([*SAID, 1]),
        written(SAID, after=-1),
        written(SAID, after=2**63),
        written(SAID, again="1"),
        *(
            written([snapshot, *SAID[1:]])
            for snapshot in ("", "0:1:", "2:1:", "1:3:2,2", "1:3:3", "2:3:1", f"1:{2**63}:", 7)
        ),
        written(["1:1:", "2026-01-31T18:00:00", 0, ""]),
        written(["1:1:", "never", 0, ""]),
        written(["1:1:", "0001-01-01T00:00:00+23:59", 0, ""]),
        written(["1:1:", "9999-12-31T23:59:59-23:59", 0, ""]),
    ],
)
def test_nothing_else_is_a_place(text: str) -> None:
    assert read_place(written(SAID)).after == 0
    with pytest.raises(InvalidArgument, match="place"):
        read_place(text)
