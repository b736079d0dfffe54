"""A line for each statement, for whoever looks at the finest level (R-7.2)."""

from jobqueue.config.model import LoggingSettings
from jobqueue.runtime.log import get_logger
from jobqueue.store.signals import QUERY_ENDED, QueryEnded

_log = get_logger(__name__)


def trace_statements(logging: LoggingSettings) -> None:
    """Write name and duration of each statement from now on; nothing unless at trace."""
    if logging.level == "trace":
        QUERY_ENDED.subscribe(_write)


def _write(news: QueryEnded) -> None:
    _log.trace("statement", statement=news.name, seconds=round(news.seconds, 4), ok=news.ok)
