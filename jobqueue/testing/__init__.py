"""Helpers for the tests of those who build on jobqueue.

from jobqueue.testing import FakeWorker
"""

from jobqueue.testing.fake_worker import FakeWorker

__all__ = ["FakeWorker"]
