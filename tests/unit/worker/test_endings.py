import asyncio
import math

import pytest

from jobqueue.domain.backoff import MAX_DELAY_S
from jobqueue.domain.limits import Limits
from jobqueue.domain.outcome import Completed, Failed, Postponed, Refused
from jobqueue.worker.endings import describe, outcome_of, outcome_of_error
from jobqueue.worker.frames import Frame, frame_outcome, outcome_frame, receive
from jobqueue.worker.verdicts import Fail, RetryLater
from tests.support.handlers import exception_of, value_of

LIMITS = Limits()


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("none", None),
        ("bytes", b"\x00\xff"),
        ("text", "grüße\x00".encode()),
        ("surrogate", "a\ufffdb".encode()),
        ("json", '{"ä": [1, 2.5, null, true]}'.encode()),
        ("done", b'{"ok": 1}'),
    ],
)
def test_a_value_becomes_bytes(name: str, result: bytes | None) -> None:
    assert outcome_of(value_of(name.encode()), LIMITS) == Completed(result)


@pytest.mark.parametrize("name", ["nan", "inf", "cycle", "deep", "object"])
def test_a_value_that_is_no_json_is_a_clear_failure(name: str) -> None:
    outcome = outcome_of(value_of(name.encode()), LIMITS)
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("the result is not JSON: ")


def test_a_huge_result_is_cut_and_marked() -> None:
    outcome = outcome_of(b"x" * (LIMITS.result_bytes + 1), LIMITS)
    assert outcome == Completed(b"x" * LIMITS.result_bytes, truncated=True)


def test_a_result_at_the_limit_is_whole() -> None:
    assert outcome_of(b"x" * LIMITS.result_bytes, LIMITS) == Completed(b"x" * LIMITS.result_bytes)


def test_a_returned_verdict_counts_like_a_raised_one() -> None:
    assert outcome_of(value_of(b"returned-fail"), LIMITS) == Refused("no way")


def test_verdicts_keep_their_words() -> None:
    assert outcome_of_error(exception_of(b"later"), LIMITS) == Postponed(7.5, "not yet")
    assert outcome_of_error(exception_of(b"fail"), LIMITS) == Refused("never")


@pytest.mark.parametrize(
    "name", ["value", "notext", "nul", "surrogate", "huge", "exit", "interrupt", "base"]
)
def test_any_exception_has_a_text_that_can_be_stored(name: str) -> None:
    outcome = outcome_of_error(exception_of(name.encode()), LIMITS)
    assert isinstance(outcome, Failed)
    assert outcome.error
    assert "\x00" not in outcome.error
    assert len(outcome.error.encode()) <= LIMITS.error_bytes


def test_a_failure_says_where_in_the_handler_it_arose() -> None:
    def handler() -> None:
        raise ValueError("deep")

    try:
        handler()
    except ValueError as error:
        outcome = outcome_of_error(error, LIMITS)
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("ValueError: deep\n")
    assert "in handler" in outcome.error


def test_an_exception_without_a_message_is_named() -> None:
    assert describe(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    "outcome",
    [
        Completed(None),
        Completed(b""),
        Completed(b"\x00\xff", truncated=True),
        Failed("text"),
        Refused(""),
        Postponed(1.5, "why"),
    ],
)
async def test_an_outcome_crosses_the_socket_unchanged(outcome: Completed) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(outcome_frame(outcome, last=True).numbered(7).pack())
    frame = await receive(reader, 7)
    assert frame.head["last"]
    assert frame_outcome(frame) == outcome


async def test_half_a_frame_is_an_end() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(Frame({"a": 1}, b"body").numbered(1).pack()[:-1])
    reader.feed_eof()
    with pytest.raises(EOFError):
        await receive(reader, 1)


@pytest.mark.parametrize(
    "said",
    [
        Frame({"end": "completed"}).numbered(6).pack(),
        Frame({"end": "completed"}).pack(),
        b"\0\0\0\2\0\0\0\0[]",
        b"\0\0\0\2\0\0\0\0xx",
        b"\0\0\0\2\0\0\0\0\xff\xff",
        b"a line of text",
        (2).to_bytes(4) + (LIMITS.result_bytes + 1).to_bytes(4),
    ],
)
async def test_what_is_no_answer_to_the_question_is_not_taken_for_one(said: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(said)
    with pytest.raises(ValueError, match=r"."):
        await receive(reader, 7)


class Mute(Fail):
    def __init__(self) -> None:
        """Not call ours."""


class Late(RetryLater):
    def __init__(self) -> None:
        """Not say when."""


class Told(RetryLater):
    """Says when with what the other side sent, which is anything."""

    def __init__(self, delay_s: object) -> None:
        self.delay_s = delay_s  # type: ignore[assignment]


class Trap(Fail):
    def __init__(self) -> None:
        """Leave the word to a property."""

    @property
    def why(self) -> str:  # type: ignore[override]
        raise SystemExit(9)


def test_verdicts_of_classes_of_its_own_are_outcomes_whatever_they_forgot() -> None:
    assert outcome_of_error(Mute(), LIMITS) == Refused("")
    late = Failed("Late, which cannot be read: AttributeError")
    assert outcome_of_error(Late(), LIMITS) == late
    assert outcome_of_error(Trap(), LIMITS) == Failed("Trap, which cannot be read: SystemExit")


@pytest.mark.parametrize("said", [None, [], "soon", 10**400])
def test_a_delay_that_is_no_number_is_a_clear_failure(said: object) -> None:
    outcome = outcome_of_error(Told(said), LIMITS)
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("Told, which cannot be read: ")


def test_a_delay_that_can_be_read_as_one_is_one_within_its_bounds() -> None:
    said = ["30", -1, math.inf, math.nan]
    delays = [outcome_of_error(Told(each), LIMITS) for each in said]
    assert delays == [Postponed(s, "") for s in (30.0, 0.0, MAX_DELAY_S, MAX_DELAY_S)]
