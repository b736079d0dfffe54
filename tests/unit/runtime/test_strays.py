"""Errors that nobody caught, in programs of their own: the hooks belong to a whole process."""

import json
import subprocess
import sys
from typing import Any

import pytest

_START = """
import threading, sys
from jobqueue.runtime.log_lines import LogSetup, configure_logging
from jobqueue.runtime.strays import catch_strays
configure_logging(LogSetup("jq-test"))
catch_strays()

class Broken:
    def __del__(self):
        raise ValueError("in a finalizer")

def broken():
    raise ValueError("in a thread")
"""


def program(body: str) -> tuple[list[dict[str, Any]], str, int]:
    done = subprocess.run(
        [sys.executable, "-c", _START + body],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, done.returncode


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ("raise ValueError('at the top')", "at the top", 1),
        ("t = threading.Thread(target=broken); t.start(); t.join()", "in a thread", 0),
        ("b = Broken(); del b", "in a finalizer", 0),
    ],
)
def test_an_error_that_nobody_caught_is_one_line(body: str, message: str, code: int) -> None:
    lines, said, ended = program(body)
    (line,) = lines
    assert (line["level"], line["exception"]["type"]) == ("error", "ValueError")
    assert line["exception"]["message"] == message
    assert (said, ended) == ("", code)


def test_an_interrupt_is_no_error() -> None:
    lines, _, ended = program("raise KeyboardInterrupt")
    assert lines == []
    assert ended != 0


def test_lines_of_structlog_take_the_shape_of_all_others() -> None:
    lines, said, _ = program(
        "import structlog\n"
        "from jobqueue.runtime.structlogs import adopt_structlog\n"
        "adopt_structlog()\n"
        "log = structlog.get_logger('app').bind(order=7)\n"
        "log.info('paid 100 %', level='forged')\n"
        "try:\n"
        "    raise ValueError('boom')\n"
        "except ValueError:\n"
        "    log.exception('it broke')\n"
        "log.debug('too fine')\n"
    )
    paid, broke = lines
    assert (paid["service"], paid["level"], paid["message"]) == ("jq-test", "info", "paid 100 %")
    assert (paid["order"], paid["level_"]) == (7, "forged")
    assert (broke["level"], broke["exception"]["message"]) == ("error", "boom")
    assert said == ""


def test_an_application_that_configured_structlog_keeps_its_own_way() -> None:
    lines, _, _ = program(
        "import structlog\n"
        "from jobqueue.runtime.structlogs import adopt_structlog\n"
        "structlog.configure(processors=[structlog.processors.JSONRenderer()])\n"
        "adopt_structlog()\n"
        "structlog.get_logger().info('mine')\n"
    )
    assert lines == [{"event": "mine"}]


def test_nobody_loads_structlog_who_does_not_use_it() -> None:
    _, said, ended = program(
        "from jobqueue.runtime.structlogs import adopt_structlog\n"
        "adopt_structlog()\n"
        "assert 'structlog' not in sys.modules\n"
    )
    assert (said, ended) == ("", 0)
