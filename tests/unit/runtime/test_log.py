import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest

from jobqueue.runtime.clock import ManualClock
from jobqueue.runtime.log import TRACE, Format, Quiet, configure_logging, get_logger, level_word


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def written(level: str = "info", form: Format = "json") -> io.StringIO:
    stream = io.StringIO()
    configure_logging("jq-test", level, form, stream)
    return stream


def test_a_line_is_one_json_object_with_the_promised_keys(root: logging.Logger) -> None:
    out = written()
    get_logger("here").bind(queue="mail").info("took 100 %s", job_id="j1")
    line = json.loads(out.getvalue())
    assert line["timestamp"].endswith("Z")
    assert line | {"timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "service": "jq-test",
        "message": "took 100 %s",
        "logger": "here",
        "queue": "mail",
        "job_id": "j1",
    }


def test_context_cannot_forge_the_promised_keys(root: logging.Logger) -> None:
    out = written()
    get_logger("here").info("true", level="fatal", name="n", args=1, service="x")
    line = json.loads(out.getvalue())
    assert (line["level"], line["level_"], line["service"], line["name"]) == (
        "info",
        "fatal",
        "jq-test",
        "n",
    )


@pytest.mark.parametrize("odd", ["a\nb", "\ud800", "\x00", b"\xff", object(), {1: {2}}])
def test_any_value_makes_exactly_one_line(root: logging.Logger, odd: object) -> None:
    out = written()
    get_logger("here").info("odd", odd=odd)
    assert len(out.getvalue().splitlines()) == 1
    json.loads(out.getvalue())


def test_a_stack_trace_stays_inside_the_object(root: logging.Logger) -> None:
    out = written()
    get_logger("here").error("it broke", error=ValueError("boom"))
    assert "ValueError: boom" in json.loads(out.getvalue())["exception"]


def test_lines_of_libraries_and_warnings_have_the_same_form(root: logging.Logger) -> None:
    out = written()
    logging.getLogger("some.library").warning("took %d s", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert (first["level"], first["message"], first["logger"]) == (
        "warn",
        "took 3 s",
        "some.library",
    )
    assert second["logger"] == "py.warnings"


def test_the_text_form_is_for_people(root: logging.Logger) -> None:
    out = written(form="text")
    get_logger("here").warning("slow", seconds=3)
    assert out.getvalue().endswith("WARN  jq-test: slow seconds=3\n")


@pytest.mark.parametrize(
    ("level", "lines"), [("trace", 5), ("debug", 4), ("info", 3), ("warn", 2), ("error", 1)]
)
def test_each_level_admits_itself_and_what_is_worse(
    root: logging.Logger, level: str, lines: int
) -> None:
    out = written(level)
    log = get_logger("here")
    log.trace("t")
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    assert len(out.getvalue().splitlines()) == lines


def test_every_number_has_a_level_word() -> None:
    words = [level_word(n) for n in (0, TRACE, 10, 15, 20, 30, 40, 50, 99)]
    assert words == ["trace", "trace", "debug", "debug", "info", "warn", "error", "error", "error"]


def test_an_unknown_level_is_refused(root: logging.Logger) -> None:
    with pytest.raises(KeyError):
        configure_logging("x", "loud")


def test_quiet_admits_one_line_per_cause_and_period() -> None:
    clock = ManualClock()
    quiet = Quiet(10, clock)
    assert [quiet.admits("a"), quiet.admits("a"), quiet.admits("b")] == [True, False, True]
    clock.advance(10)
    assert quiet.admits("a")
    assert len(quiet._last) == 1
