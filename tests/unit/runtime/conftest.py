"""What tests of logging must put back."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
