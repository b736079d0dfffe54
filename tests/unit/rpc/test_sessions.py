"""Sessions of remote workers: made by servers, and by nobody else."""

import pytest

from jobqueue.errors import InvalidArgument, NotFound
from jobqueue.rpc.sessions import Sessions

SESSIONS = Sessions(b"a key that all servers share")


@pytest.mark.parametrize("worker", [0, 1, 7, 2**31 - 1])
def test_every_server_reads_what_one_has_named(worker: int) -> None:
    name = SESSIONS.name(worker)
    assert Sessions(b"a key that all servers share").read(name) == worker
    assert str(int(name)) == name


@pytest.mark.parametrize("text", ["", "x", "-1", "1 ", "²", "1\n", "9" * 30])
def test_a_text_that_is_no_session_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="session"):
        SESSIONS.read(text)


@pytest.mark.parametrize(
    "text",
    [
        "7",
        str(7 << 64),
        str(int(SESSIONS.name(7)) + 1),
        str(int(SESSIONS.name(7)) + (1 << 64)),
        "0" + SESSIONS.name(7),
        Sessions(b"another key").name(7),
        str(2**95 + 1),
    ],
)
def test_a_session_that_no_server_made_is_nobodys(text: str) -> None:
    with pytest.raises(NotFound, match="session"):
        SESSIONS.read(text)
