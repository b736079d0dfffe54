"""Values as a log line can hold them, whatever they are. Nothing here raises."""

import json
import re
from collections.abc import Iterator, Mapping
from traceback import walk_tb
from typing import Any

_FRAMES, _CAUSES, _PARTS = 20, 4, 3
_MESSAGE_LENGTH = 300
_PATH_PARTS = 3

_PASSWORDS = re.compile(
    r"""(?P<url>://[^\s/:@"]*:)[^\s/]*(?=@)
    |(?P<pair>\b(?:\w*password|api_?key|secret)=)
        (?:"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|[^\s&"]+)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Of a URL, and of a pair whose value is quoted, also without an end, or ends with a blank."""


def as_text(value: object) -> str:
    """Return the text of any value, also of one whose own text cannot be had."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a foreign object; the line matters more
        return f"<{type(value).__name__}>"


def plain(value: object) -> object:
    """Return a value as JSON has it, or its text."""
    return value if isinstance(value, str | int | float | None) else as_text(value)


def safe_json(line: Mapping[str, object]) -> str:
    """Return one JSON object, strict and ASCII only; values that JSON has not become text."""
    try:
        return json.dumps(line, default=as_text, skipkeys=True, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return json.dumps({as_text(key): as_text(value) for key, value in line.items()})


def masked(value: object) -> object:
    """Return a value without the passwords that others have put into its texts.

    Before it is made into a line: there, quotes inside a text look like the end of it.
    """
    try:
        return _masked(value)
    except RecursionError:
        return _hidden(as_text(value))


def _masked(value: object) -> object:
    match value:
        case bool() | int() | float() | None:
            return value
        case dict():
            return {key: _masked(part) for key, part in value.items()}
        case list() | tuple():
            return [_masked(part) for part in value]
        case _:
            return _hidden(as_text(value))


def _hidden(text: str) -> str:
    return _PASSWORDS.sub(lambda found: f"{found['url'] or found['pair']}***", text)


def shortened(value: object, length: int) -> object:
    """Return a value of at most about ``length`` characters; the rest is left out.

    Of an error's field, type, message and the end of the stack are left, of causes nothing.
    """
    match value:
        case bool() | int() | float() | None:
            return value
        case {"type": kind, "message": message, "stack": [*stack]}:
            frames = [shortened(frame, length) for frame in stack[-_PARTS:]]
            message = shortened(message, length)
            return {"type": shortened(kind, length), "message": message, "stack": frames}
        case _:
            text = as_text(value)
            return text if len(text) <= length else f"{text[:length]}…"


def error_field(error: BaseException) -> dict[str, Any]:
    """Return an error as a field: type, message, stack, and its causes in the same form.

    Only the first line of a message is kept: what a database adds to it quotes rows.
    """
    first, *causes = _chain(error)
    field = _described(first)
    inner = field
    for cause in causes:
        inner["cause"] = _described(cause)
        inner = inner["cause"]
    if isinstance(error, BaseExceptionGroup):
        field["errors"] = [_described(part) for part in error.exceptions[:_PARTS]]
    return field


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it came of, up to a bound: causes may form a ring."""
    current: BaseException | None = error
    for _ in range(_CAUSES):
        if current is None:
            return
        yield current
        ours = current.__suppress_context__
        current = current.__cause__ or (None if ours else current.__context__)


def _described(error: BaseException) -> dict[str, Any]:
    frames = [
        f"{_short(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
    ]
    message = as_text(error).partition("\n")[0][:_MESSAGE_LENGTH]
    return {"type": _name(type(error)), "message": message, "stack": frames[-_FRAMES:]}


def _name(kind: type[BaseException]) -> str:
    home = kind.__module__
    return kind.__qualname__ if home == "builtins" else f"{home}.{kind.__qualname__}"


def _short(path: str) -> str:
    return "/".join(path.split("/")[-_PATH_PARTS:])
