"""What just happened on the way to the server, for those who log it."""

from jobqueue.runtime.signals import Signal

CERTIFICATES_CHANGED: Signal[str] = Signal("certificates_changed")
"""The files are others now: why they cannot be used; empty: they are used from now on."""
