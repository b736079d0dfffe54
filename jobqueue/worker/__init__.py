"""Runs other people's code without letting it hurt us.

Handlers hang, crash and lie; leases must not care. These names are all that a handler needs:

    from jobqueue.worker import Context, Done, Fail, RetryLater, handler
"""

from jobqueue.worker.context import Context
from jobqueue.worker.declare import handler
from jobqueue.worker.verdicts import Done, Fail, RetryLater

__all__ = ["Context", "Done", "Fail", "RetryLater", "handler"]
