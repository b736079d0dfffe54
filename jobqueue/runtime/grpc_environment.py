"""What gRPC reads from the environment as it is imported, as our programs want it."""

import os

_OURS = {
    # What it would write to stderr, in a format of its own, comes as errors of calls too.
    "GRPC_VERBOSITY": "NONE",
    # Its handlers of fork() run in every process that uvloop starts, between fork and exec, while
    # other threads of ours are within gRPC: one start in ten died of SIGSEGV or SIGABRT.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
}
_set: set[str] = set()


def prepare_grpc() -> None:
    """Set what the environment does not say. Call it before gRPC is imported: later is too late."""
    for name, value in _OURS.items():
        if name not in os.environ:
            os.environ[name] = value
            _set.add(name)


def environment_given() -> dict[str, str]:
    """Return this program's environment without what ``prepare_grpc`` set, for others' programs."""
    return {name: value for name, value in os.environ.items() if name not in _set}
