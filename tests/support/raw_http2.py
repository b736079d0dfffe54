"""HTTP/2 written by hand, for what no gRPC client would send."""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_ACK, _INITIAL_WINDOW_SIZE = 1, 4


def call(
    port: int,
    path: bytes,
    body: bytes = b"",
    *,
    withheld: int = 0,
    ca: Path | None = None,
    **headers: bytes,
) -> bytes:
    """Send one gRPC call with any bytes in its path and headers; return what came back.

    With TLS where there is a ``ca`` to trust. So many bytes of the message are announced and
    ``withheld``. Returns when the call has its status or the server hangs up; TimeoutError after
    10 s.
    """
    pairs = _pairs(path) | {
        name.replace("_", "-").encode(): value for name, value in headers.items()
    }
    message = b"\x00" + struct.pack(">I", len(body) + withheld) + body
    with _connected(port, ca) as connection:
        connection.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, b"")
            + _frame(_HEADERS, _END_HEADERS, 1, b"".join(map(_literal, pairs, pairs.values())))
            + _frame(_DATA, 0 if withheld else _END_STREAM, 1, message)
        )
        answer = b""
        while b"grpc-status" not in answer and (more := connection.recv(65_536)):
            answer += more
        return answer


@contextmanager
def unread(port: int, path: bytes, body: bytes) -> Iterator[None]:
    """Make a call whose answers the server may not send: this side has no window for them."""
    pairs = _pairs(path)
    no_window = struct.pack(">HI", _INITIAL_WINDOW_SIZE, 0)
    with _connected(port, None) as connection:
        connection.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, no_window)
            + _frame(_SETTINGS, _ACK, 0, b"")
            + _frame(_HEADERS, _END_HEADERS, 1, b"".join(map(_literal, pairs, pairs.values())))
            + _frame(_DATA, _END_STREAM, 1, b"\x00" + struct.pack(">I", len(body)) + body)
        )
        yield


def _pairs(path: bytes) -> dict[bytes, bytes]:
    pairs = {b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"test"}
    return pairs | {b"te": b"trailers", b"content-type": b"application/grpc"}


def _connected(port: int, ca: Path | None) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=10.0)
    if ca is None:
        return plain
    trusting = ssl.create_default_context(cafile=str(ca))
    trusting.set_alpn_protocols(["h2"])
    return trusting.wrap_socket(plain, server_hostname="localhost")


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return (
        struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body
    )


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a header that is neither indexed nor compressed (RFC 7541, 6.2.2)."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: bytes) -> bytes:
    assert len(text) < 127, "a longer length takes more than one byte"
    return bytes([len(text)]) + text
