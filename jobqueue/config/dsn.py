"""The database's address, from a URL or from its parts."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from jobqueue.config.address import is_port
from jobqueue.config.model import DbSettings
from jobqueue.config.secret import MASK

SCHEMES = ("postgresql", "postgres")


def database_dsn(db: DbSettings) -> str:
    """Return a `postgresql://` URL that asyncpg takes. It holds the password: never print it.

    `db.url` wins over the parts; password, sslmode and root certificate complete a URL that
    does not carry them.
    """
    return _add_query(_url(db), _ssl_options(db))


def shown_url(url: str) -> str:
    """Return the URL with its passwords masked."""
    parts = urlsplit(url)
    netloc = parts.netloc
    if parts.password is not None:
        user = netloc.rpartition("@")[0].partition(":")[0]
        netloc = f"{user}:{MASK}@{netloc.rpartition('@')[2]}"
    query = [(k, MASK if _names_password(k) else v) for k, v in parse_qsl(parts.query)]
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(query, safe="/*")))


def has_password(url: str) -> bool:
    """Say whether a URL carries a password, in either of its two places."""
    parts = urlsplit(url)
    return parts.password is not None or "password" in dict(parse_qsl(parts.query))


def holds_secret(url: str) -> bool:
    """Say whether a URL carries any password: that of a client's key (`sslpassword`), too."""
    parts = urlsplit(url)
    return parts.password is not None or any(_names_password(k) for k, _ in parse_qsl(parts.query))


def is_split_by_a_password(url: str) -> bool:
    """Say whether a URL has an @ after its hosts: a password with / ? or # ends them early."""
    parts = urlsplit(url)
    return "@" in f"{parts.path}{parts.query}{parts.fragment}"


def ports_are_numbers(url: str) -> bool:
    """Say whether every host of a URL, which may name several, has no port or a possible one."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2].split(",")
    # What follows the bracket of an IPv6 address, or the first colon of a name.
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
    ports += dict(parse_qsl(parts.query)).get("port", "").split(",")
    return all(not port or is_port(port) for port in ports)


def _names_password(key: str) -> bool:
    return key.lower().endswith("password")


def _url(db: DbSettings) -> str:
    if db.url is None:
        return _from_parts(db)
    url = db.url.reveal()
    if db.password is None or has_password(url):
        return url
    return _add_query(url, {"password": db.password.reveal()})


def _from_parts(db: DbSettings) -> str:
    login = quote(db.user, safe="")
    if db.password is not None:
        login += ":" + quote(db.password.reveal(), safe="")
    name = quote(db.name, safe="")
    if db.host.startswith("/"):
        host = urlencode({"host": db.host, "port": str(db.port)}, safe="/")
        return f"postgresql://{login}@/{name}?{host}"
    hosts = ",".join(f"{_bracketed(host)}:{db.port}" for host in db.host.split(","))
    return f"postgresql://{login}@{hosts}/{name}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _ssl_options(db: DbSettings) -> dict[str, str]:
    options = {"sslmode": db.sslmode, "sslrootcert": db.ssl_root_cert}
    return {name: value for name, value in options.items() if value is not None}


def _add_query(url: str, options: dict[str, str]) -> str:
    parts = urlsplit(url)
    there = parse_qsl(parts.query, keep_blank_values=True)
    names = {name for name, _ in there}
    added = [(name, value) for name, value in options.items() if name not in names]
    if not added:
        return url
    return urlunsplit(parts._replace(query=urlencode(there + added, safe="/", quote_via=quote)))
