"""Lines of applications that log through structlog take the shape of all others.

structlog itself is never imported here: it takes longer to load than a handler process takes to
start, and only those who use it have loaded it.
"""

import sys
from collections.abc import MutableMapping
from typing import Any

_KEYWORDS = ("exc_info", "stack_info")


def adopt_structlog() -> None:
    """Send structlog's lines through ``logging``, where it is in use and not configured yet."""
    structlog: Any = sys.modules.get("structlog")
    if structlog is None or structlog.is_configured():
        return
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, as_record],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def as_record(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> tuple[tuple[str, str], dict[str, Any]]:
    """Return an event of structlog as the arguments of a ``logging`` call."""
    text = str(event.pop("event", ""))
    keywords = {key: event.pop(key) for key in _KEYWORDS if key in event}
    # Passed as an argument: a message may hold a percent sign.
    return ("%s", text), {**keywords, "extra": {"context": dict(event)}}
