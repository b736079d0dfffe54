"""What gRPC logs about callers, without what they sent and without a flood (R-9.1).

The library writes metadata that is no UTF-8 as it came, a mistyped key included, and a stack trace
for every call that broke. Whoever can connect could fill a disk with them.
"""

import logging

from jobqueue.runtime.log import Quiet

_LIBRARY = "grpc._cython.cygrpc"
_SENT = "Invalid encoding on "
_LEFT = "ExecuteBatchError raised in core"
"""A caller left while an answer was under way to it: nothing is wrong."""


class Discreet(logging.Filter):
    """Drops what is no news, hides what was sent, admits one line per kind in ten seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet = Quiet()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line may be written, after taking out what a caller sent."""
        if record.getMessage().startswith(_LEFT):
            return False
        if record.getMessage().startswith(_SENT):
            record.msg, record.args = "a caller sent metadata that is no text", ()
            record.exc_info = record.exc_text = None
        # The template, not the line: names in it would make each one its own kind.
        return self._quiet.admits(str(record.msg)[: len(_SENT)])


_DISCREET = Discreet()


def hush_library() -> None:
    """Have the library's own log lines filtered from now on; more than once is as good as once."""
    logging.getLogger(_LIBRARY).addFilter(_DISCREET)
