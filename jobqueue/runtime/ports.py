"""Ports on all interfaces, and one look at them before anything is started."""

import socket

from jobqueue.errors import Unavailable
from jobqueue.runtime.copies import close_in_copies


def listen(setting: str, port: int) -> socket.socket:
    """Return a socket that listens on ``port`` (0: any free one) of all interfaces.

    A copy of this process does not listen: it would keep the port from whoever takes our place.
    Raises Unavailable naming the setting when nobody can.
    """
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        listening = socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except OSError as error:
        message = f"cannot listen on port {port} ({setting})"
        raise Unavailable(message, reason="PORT_TAKEN") from error
    close_in_copies(listening)
    return listening


def check_port(setting: str, port: int) -> None:
    """Raise Unavailable naming the setting when nobody can listen on ``port``. 0: always free.

    A database that starts first would be in vain. Who comes between this look and the real one is
    found out by the real one.
    """
    if port:
        listen(setting, port).close()
