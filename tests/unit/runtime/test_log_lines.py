import io
import json
import logging
import os
import warnings
from typing import Any

import pytest

from jobqueue.runtime.clock import ManualClock
from jobqueue.runtime.log import TRACE, LogContext, Quiet, get_logger, write_relayed
from jobqueue.runtime.log_lines import (
    LINE_BYTES,
    Format,
    LogSetup,
    Throttle,
    configure_logging,
    level_word,
    logging_setup,
)
from jobqueue.runtime.log_values import error_field


def written(level: str = "info", form: Format = "json") -> io.StringIO:
    stream = io.StringIO()
    configure_logging(LogSetup("jq-test", level, form), stream)
    return stream


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


RING: list[object] = []
RING.append(RING)


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


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


@pytest.mark.parametrize(
    "odd",
    [
        "a\nb",
        "\ud800",
        "\x00",
        b"\xff",
        object(),
        {1: {2}},
        float("nan"),
        Unspeakable(),
        RING,
        "\u20ac" * 5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_value_makes_exactly_one_line(root: logging.Logger, odd: object) -> None:
    out = written()
    get_logger("here").info("odd", odd=odd)
    assert len(lines(out)) == 1
    assert len(out.getvalue()) <= LINE_BYTES
    json.loads(out.getvalue(), parse_constant=pytest.fail)


def raised(message: str) -> Exception:
    try:
        try:
            raise KeyError("deep")  # noqa: TRY301 - the cause that is looked for
        except KeyError as cause:
            raise ValueError(message) from cause
    except ValueError as error:
        return error


def test_an_error_is_a_field_with_type_message_stack_and_cause(root: logging.Logger) -> None:
    out = written()
    get_logger("here").error("it broke", error=raised("boom\nDETAIL:  Failing row contains (x)"))
    (line,) = lines(out)
    error = line["exception"]
    assert (error["type"], error["message"]) == ("ValueError", "boom")
    assert error["stack"][-1].endswith(" raised")
    assert error["cause"]["type"] == "KeyError"


def test_errors_of_a_group_and_causes_in_a_ring_are_bounded(root: logging.Logger) -> None:
    out = written()
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    get_logger("here").error("both", error=ExceptionGroup("many", [one] * 9))
    get_logger("here").error("ring", error=one)
    group, ring = (line["exception"] for line in lines(out))
    assert len(group["errors"]) == 3
    assert ring["cause"]["cause"]["cause"]["message"] == "other"


def deep(levels: int) -> None:
    if levels == 0:
        raise RuntimeError("the bottom")
    deep(levels - 1)


def test_a_line_is_never_longer_than_a_pipe_takes_in_one_piece(root: logging.Logger) -> None:
    out = written()
    with pytest.raises(RuntimeError) as caught:
        deep(90)
    values = {f"key{i}": "x" * 300 for i in range(200)}
    get_logger("here").error("long", error=caught.value, sql="y" * 10_000)
    get_logger("here").info("wide", **values)
    get_logger("n" * 9000).info("m" * 9000)
    assert all(len(line) <= LINE_BYTES for line in out.getvalue().splitlines(keepends=True))
    first, second, third = lines(out)
    assert first["truncated"] is second["truncated"] is third["truncated"] is True
    assert first["exception"]["message"] == "the bottom"
    assert second["message"] == "wide"


def test_passwords_in_texts_of_others_are_hidden(root: logging.Logger) -> None:
    out = written()
    url = "postgresql://jq:s3cr3t/p@ss@db:5432/x"
    logging.getLogger("lib").error("cannot reach %s", url.replace("/p@", "p@"))
    logging.getLogger("lib").error("host=db password=s3cr3t, user=jq")
    get_logger("here").error("it broke", error=ValueError("postgresql://jq:s3cr3t@db/x"))
    assert "s3cr3t" not in out.getvalue()
    assert "@db:5432/x" in lines(out)[0]["message"]


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize(
    "text",
    [
        'connect with password="s3cr3t s3cr3t" now',
        'conninfo "host=db password=s3cr3t" refused',
        "Config(secret='s3cr3t, s3cr3t', api_key=\"it's s3cr3t\")",
        'password="s3cr3t\\" s3cr3t" is wrong',
        "password=s3cr3t,s3cr3t",
        "postgresql://db/x?sslpassword=s3cr3t&JQ_DB_PASSWORD=s3cr3t",
        'password="s3cr3t without an end',
        'https://me:s3cr3t"s3cr3t@db:5432/x',
    ],
)
def test_a_password_is_hidden_whole_and_the_line_stays_one(
    root: logging.Logger, form: Format, text: str
) -> None:
    out = written(form=form)
    nested: dict[str, object] = {"why": [text, {"deep": ValueError(text)}]}
    get_logger("here").error(text, error=ValueError(text), whole=text, nested=nested)
    assert "s3cr3t" not in out.getvalue()
    if form == "json":
        (line,) = lines(out)
        assert "***" in line["message"]
        assert "***" in line["exception"]["message"]


def test_context_around_a_line_is_on_it_whoever_writes_it(root: logging.Logger) -> None:
    out = written()
    with LogContext(job_id="j1", queue="mail"):
        with LogContext(queue="inner"):
            logging.getLogger("some.library").info("inside")
        get_logger("here").info("own", queue="said")
    get_logger("here").info("outside")
    inside, own, outside = lines(out)
    assert (inside["job_id"], inside["queue"]) == ("j1", "inner")
    assert (own["job_id"], own["queue"]) == ("j1", "said")
    assert "job_id" not in outside


def test_arguments_that_do_not_fit_their_text_still_make_a_line(root: logging.Logger) -> None:
    out = written()
    logging.getLogger("some.library").info("only %s", "one", "two")  # noqa: PLE1205 - the point
    assert lines(out)[0]["message"] == "only %s"


def test_a_closed_stream_loses_lines_and_nothing_else(root: logging.Logger) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    configure_logging(LogSetup("jq-test"), writer)
    get_logger("here").info("lost")
    os.close(writer)
    get_logger("here").info("lost too")


def test_a_full_stream_that_nobody_reads_loses_lines(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobqueue.runtime.log_lines._FULL_PIPE_S", 0.0)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    configure_logging(LogSetup("jq-test"), writer)
    for _ in range(100):
        get_logger("here").info("x" * 2000)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        whole = [line for line in pipe.read().splitlines(keepends=True) if line.endswith(b"\n")]
    assert 0 < len(whole) < 100


def complaint(name: str, text: str = "cannot reach %s", level: int = logging.ERROR) -> Any:
    return logging.makeLogRecord({"name": name, "msg": text, "args": ("db",), "levelno": level})


def test_a_library_complains_once_per_cause_and_ten_seconds() -> None:
    clock = ManualClock()
    throttle = Throttle(clock)
    seen = [throttle.filter(complaint("asyncpg.pool")) for _ in range(4)]
    assert seen == [True, False, False, False]
    assert throttle.filter(complaint("asyncpg.pool", "another"))
    clock.advance(10)
    again = complaint("asyncpg.pool")
    assert throttle.filter(again)
    assert again.context == {"held_back": 3}


def test_lines_of_applications_and_quiet_lines_are_not_held_back() -> None:
    throttle = Throttle(ManualClock())
    assert all(throttle.filter(complaint("myapp.jobs")) for _ in range(3))
    assert all(throttle.filter(complaint("asyncpg", level=logging.INFO)) for _ in range(3))


def test_a_program_can_tell_another_how_it_logs(root: logging.Logger) -> None:
    written("debug", "text")
    assert logging_setup() == LogSetup("jq-test", "debug", "text")
    root.handlers[:] = []
    assert logging_setup() is None


def test_lines_of_libraries_and_warnings_have_the_same_form(root: logging.Logger) -> None:
    out = written()
    logging.getLogger("some.library").warning("took %d s", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, second = lines(out)
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
    get_logger("here").error("it broke", error=ValueError("boom"))
    assert '"message": "boom"' in out.getvalue()


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


@pytest.mark.parametrize(
    ("level", "written_lines"), [("trace", 3), ("debug", 2), ("info", 2), ("warn", 1), ("error", 0)]
)
def test_what_libraries_say_for_their_own_makers_is_written_at_the_finest_level_only(
    root: logging.Logger, level: str, written_lines: int
) -> None:
    out = written(level)
    library = logging.getLogger("grpc._cython.cygrpc")
    for write in (library.debug, library.info, library.warning):
        write("so it is")
    assert len(lines(out)) == written_lines


@pytest.mark.parametrize(("level", "written_lines"), [("trace", 2), ("debug", 1), ("info", 1)])
def test_the_statements_of_a_migration_are_written_at_the_finest_level_only(
    root: logging.Logger, level: str, written_lines: int
) -> None:
    out = written(level)
    library = logging.getLogger("sqlalchemy.engine.Engine")
    for write in (library.info, library.warning):
        write("so it is")
    assert len(lines(out)) == written_lines


def test_a_line_of_another_process_looks_as_if_it_came_about_here(root: logging.Logger) -> None:
    out = written()
    error = error_field(ValueError("boom"))
    write_relayed("asyncpg.pool", logging.ERROR, "100 % gone", {"loop": "renew"}, error)
    write_relayed("here", logging.DEBUG, "too fine", {}, None)
    (line,) = lines(out)
    assert line | {"timestamp": ""} == {
        "timestamp": "",
        "level": "error",
        "service": "jq-test",
        "message": "100 % gone",
        "logger": "asyncpg.pool",
        "loop": "renew",
        "exception": error,
    }


def test_every_number_has_a_level_word() -> None:
    words = [level_word(n) for n in (0, TRACE, 10, 15, 20, 30, 40, 50, 99)]
    assert words == ["trace", "trace", "debug", "debug", "info", "warn", "error", "error", "error"]


def test_an_unknown_level_is_refused(root: logging.Logger) -> None:
    with pytest.raises(KeyError):
        configure_logging(LogSetup("x", "loud"))


def test_quiet_admits_one_line_per_cause_and_period() -> None:
    clock = ManualClock()
    quiet = Quiet(10, clock)
    assert [quiet.admits("a"), quiet.admits("a"), quiet.admits("b")] == [True, False, True]
    clock.advance(10)
    assert quiet.admits("a")
    assert len(quiet._last) == 1
