"""An address as people write it: HOST:PORT, an IPv6 address in brackets."""

from ipaddress import IPv6Address

_LAST_PORT = 65_535


def split_address(text: str) -> tuple[str, int]:
    """Return host and port. Raises ValueError saying what an address must be.

    What was given is not repeated: it may be a URL that holds a password.
    """
    host, _, port = text.strip().rpartition(":")
    clear = ":" not in host or host.startswith("[")
    if not clear or not is_host(host) or not is_port(port):
        raise ValueError("must be HOST:PORT")
    return host.strip("[]"), int(port)


def is_port(text: str) -> bool:
    """Say whether a text is a number that a port can be."""
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) <= _LAST_PORT


def is_host(text: str) -> bool:
    """Say whether a text can be a host: a name, or an IP address, in brackets or without."""
    name = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in name or name != text:
        try:
            IPv6Address(name)
        except ValueError:
            return False
    return bool(name) and name.isprintable() and not set(name) & set("/@[]?#\\ ")
