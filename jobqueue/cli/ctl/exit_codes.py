"""Exit codes (R-8.3): a script may rely on each of them."""

from enum import IntEnum

from jobqueue.errors import JobQueueError


class ExitCode(IntEnum):
    """What the program ended with."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNAVAILABLE = 5
    DENIED = 6
    PARTLY_DONE = 7
    DEAD_LETTERED = 8
    WAIT_TIMEOUT = 9
    INTERRUPTED = 130


_BY_CODE = {
    "INVALID_ARGUMENT": ExitCode.USAGE,
    "NOT_FOUND": ExitCode.NOT_FOUND,
    "FAILED_PRECONDITION": ExitCode.CONFLICT,
    "ALREADY_EXISTS": ExitCode.CONFLICT,
    "ABORTED": ExitCode.CONFLICT,
    "UNAVAILABLE": ExitCode.UNAVAILABLE,
    "DEADLINE_EXCEEDED": ExitCode.UNAVAILABLE,
    "UNAUTHENTICATED": ExitCode.DENIED,
    "PERMISSION_DENIED": ExitCode.DENIED,
}


def exit_code(error: JobQueueError) -> ExitCode:
    """Return the exit code of a failed call."""
    if error.reason == "WAIT_TIMEOUT":
        return ExitCode.WAIT_TIMEOUT
    return _BY_CODE.get(error.code, ExitCode.FAILURE)
