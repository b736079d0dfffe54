"""Fixtures of the tests that start programs."""

import os
import time

import pytest


@pytest.fixture
def seed() -> int:
    """Print what was drawn, so that a failure can be repeated with `JQ_TEST_SEED`."""
    drawn = int(os.environ.get("JQ_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"JQ_TEST_SEED={drawn}")  # noqa: T201 - shown when the test fails
    return drawn
