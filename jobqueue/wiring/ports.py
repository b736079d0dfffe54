"""Ports, looked at before anything is started: a database that starts first would be in vain."""

import socket

from jobqueue.errors import Unavailable


def check_port(setting: str, port: int) -> None:
    """Raise Unavailable naming the setting when nobody can listen on ``port``. 0: always free.

    Who comes between this look and the real one is found out by the real one.
    """
    if port == 0:
        return
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=both).close()
    except OSError as error:
        message = f"cannot listen on port {port} ({setting})"
        raise Unavailable(message, reason="PORT_TAKEN") from error
