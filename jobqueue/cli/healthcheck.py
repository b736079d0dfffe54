"""`python -m jobqueue.cli.healthcheck [PATH]`: the health check of a container (R-10.1).

Asks the program that runs beside it for /healthz, or for another path, on the port of
`JQ_HEALTH_PORT`; of `JQ_WORKER_PROCESSES` all. Ends with 0 when every answer is 200. It starts
often, so it loads neither settings nor a client.
"""

import os
import socket
import sys
from collections.abc import Mapping, Sequence

_TIMEOUT_S = 3.0
_OK = b"200"


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print what each process answers; return 0 when all are well, otherwise 1."""
    path = argv[0] if argv else "/healthz"
    try:
        answers = [ask(port, path) for port in ports(env)]
    except (OSError, ValueError) as error:
        print(f"{path}: {error}")  # noqa: T201 - the container's runtime keeps and shows it
        return 1
    for answer in answers:
        print(answer.decode(errors="replace"))  # noqa: T201 - the same
    return 0 if all(status_of(answer) == _OK for answer in answers) else 1


def ports(env: Mapping[str, str]) -> range:
    """Return the health ports of all processes. Raises ValueError where none can be known."""
    first = int(env.get("JQ_HEALTH_PORT") or 8080)
    if first == 0:
        raise ValueError("JQ_HEALTH_PORT is 0: any port may be the one")
    return range(first, first + int(env.get("JQ_WORKER_PROCESSES") or 1))


def ask(port: int, path: str) -> bytes:
    """Return the whole answer. Raises OSError when none comes in time."""
    with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode("ascii"))
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def status_of(answer: bytes) -> bytes:
    """Return the status code of an HTTP answer; empty when it is none."""
    words = answer.split(maxsplit=2)
    return words[1] if len(words) > 1 else b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
