"""A connection that did not come about, in words of ours (R-9.1)."""

import grpc
import pytest

from jobqueue.transport.faults import translate

HUNG_UP = "cannot reach db:1: it hung up at once; it may want TLS, or a client certificate"


class Unreached(grpc.RpcError):
    """The end of a call that found no connection."""

    def __init__(self, message: str) -> None:
        self.message = message

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return self.message

    def trailing_metadata(self) -> tuple[()]:
        return ()


# As grpcio 1.85 says it, of a server that wants another certificate: the first at its own
# port, the others behind a TCP proxy.
@pytest.mark.parametrize(
    "cause",
    [
        "Socket closed",
        "recvmsg:Connection reset by peer (104)",
        "Delayed close due to in-progress write (Socket closed) (sendmsg: Broken pipe (32))",
        "sendmsg: Broken pipe (32)",
    ],
)
def test_a_server_that_hangs_up_at_once_is_told_as_such(cause: str) -> None:
    said = f"failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:1: {cause}"
    assert str(translate(Unreached(said), "db:1")).startswith(HUNG_UP)


def test_a_connection_lost_later_is_told_as_it_is() -> None:
    error = translate(Unreached("recvmsg:Connection reset by peer (104)"), "db:1")
    assert str(error) == "cannot reach db:1: recvmsg:Connection reset by peer (104)"
