"""What tests of logging must put back."""

import logging
from collections.abc import Iterator

import pytest

from jobqueue.runtime.log_lines import LIBRARIES


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    libraries = {name: logging.getLogger(name).level for name in LIBRARIES}
    yield root
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in libraries.items():
        logging.getLogger(name).setLevel(before)
