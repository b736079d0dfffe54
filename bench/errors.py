"""What can go wrong while measuring."""


class BenchError(Exception):
    """A cell could not be measured; the report says why."""


class NotInstallable(BenchError):
    """A peer cannot be had on this machine; the report says why."""


class TookTooLong(BenchError):
    """Something did not come about in its time."""
