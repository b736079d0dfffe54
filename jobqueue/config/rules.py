"""What a value may be. A rule turns what was given into a value or says why it cannot.

`read` raises ValueError with a message that completes the sentence "KEY …". Text comes from
flags and the environment and is parsed; other types come from a file and must fit already.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import Repr
from types import MappingProxyType
from typing import Protocol, TypeVar

from jobqueue.config.address import split_address
from jobqueue.config.secret import Secret
from jobqueue.config.yaml_text import read_yaml

T_co = TypeVar("T_co", covariant=True)

_TRUE = frozenset({"true", "yes", "on", "1"})
_SHOWN_CHARACTERS = 80
_FALSE = frozenset({"false", "no", "off", "0"})
_SPELLED_OUT = frozenset({str, int, float})


class Rule(Protocol[T_co]):
    """Reads one setting."""

    def read(self, raw: object) -> T_co:
        """Return the value. Raises ValueError saying what it must be."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number in [low, high]."""

    low: int
    high: int

    def read(self, raw: object) -> int:
        """Accept an int, or text that is one."""
        wanted = f"must be a whole number from {self.low} to {self.high}, not {_shown(raw)}"
        number = _number(raw, int, wanted)
        if not self.low <= number <= self.high:
            raise ValueError(wanted)
        return number


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number in [low, high], fractions included."""

    low: float
    high: float

    def read(self, raw: object) -> float:
        """Accept an int, a float, or text that is one."""
        wanted = f"must be a number from {self.low:.12g} to {self.high:.12g}, not {_shown(raw)}"
        number = _number(raw, float, wanted)
        if math.isnan(number) or not self.low <= number <= self.high:
            raise ValueError(wanted)
        return number


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, raw: object) -> bool:
        """Accept a bool, or true/yes/on/1 and false/no/off/0 in any case."""
        if isinstance(raw, bool):
            return raw
        word = raw.strip().lower() if isinstance(raw, str) else ""
        if word not in _TRUE | _FALSE:
            raise ValueError(f"must be true or false, not {_shown(raw)}")
        return word in _TRUE


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is not empty."""

    def read(self, raw: object) -> str:
        """Accept text only: a number in a file has lost its leading zeros."""
        if not isinstance(raw, str):
            raise ValueError(f"must be text (quote it), not {_shown(raw)}")
        if not raw.strip() or "\x00" in raw:
            raise ValueError("must not be empty or hold NUL")
        return raw


@dataclass(frozen=True, slots=True)
class Address:
    """HOST:PORT."""

    def read(self, raw: object) -> str:
        """Accept text that `split_address` can take apart."""
        text = Text().read(raw).strip()
        split_address(text)
        return text


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words, in any case."""

    words: Sequence[str]

    def read(self, raw: object) -> str:
        """Return the word as it is spelled here."""
        # A list is not spelled out: by aliases, a short one in YAML has a billion elements.
        given = str(raw).strip().lower() if type(raw) in _SPELLED_OUT else ""
        if raw is False:  # so YAML reads an off that is not quoted
            given = "off"
        for word in self.words:
            if word.lower() == given:
                return word
        raise ValueError(f"must be one of {', '.join(self.words)}, not {_shown(raw)}")


@dataclass(frozen=True, slots=True)
class TextList:
    """Any number of texts; in flags and the environment separated by commas."""

    def read(self, raw: object) -> tuple[str, ...]:
        """Accept a list of text, or one text that is split."""
        if isinstance(raw, str):
            return tuple(part.strip() for part in raw.split(",") if part.strip())
        if not isinstance(raw, list | tuple) or not all(isinstance(item, str) for item in raw):
            raise ValueError(f"must be a list of text, not {_shown(raw)}")
        return tuple(Text().read(item) for item in raw)


@dataclass(frozen=True, slots=True)
class SecretText:
    """Text of some length; neither the value nor a refusal shows it."""

    least_bytes: int = 1

    def read(self, raw: object) -> Secret:
        """Accept text only."""
        if not isinstance(raw, str) or not raw:
            raise ValueError("must be text that is not empty (quote it)")
        if len(raw.encode(errors="replace")) < self.least_bytes:
            raise ValueError(f"must have at least {self.least_bytes} bytes")
        return Secret(raw)


@dataclass(frozen=True, slots=True)
class Commands:
    """A command line, as a list of words, for each job type."""

    def read(self, raw: object) -> Mapping[str, tuple[str, ...]]:
        """Accept a mapping; text is read as YAML, so JSON will do."""
        wanted = 'must map job types to command lines, like {"resize": ["convert", "-"]}'
        try:
            given = read_yaml(raw) if isinstance(raw, str) else raw
        except ValueError as error:
            raise ValueError(wanted) from error
        if not isinstance(given, Mapping) or not all(map(_is_command, given.items())):
            raise ValueError(wanted)
        return MappingProxyType({kind: tuple(argv) for kind, argv in given.items()})


def _shown(raw: object) -> str:
    """Return what was given, as far as a line has room for it."""
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = _SHOWN_CHARACTERS
    short.maxlevel = 2  # of lists in lists; each level may be six times as long as the next
    try:
        return short.repr(raw)
    except ValueError:  # a number of more digits than Python spells out
        return "a huge number"


def _is_command(item: tuple[object, object]) -> bool:
    kind, argv = item
    if not isinstance(kind, str) or not isinstance(argv, list | tuple) or not argv:
        return False
    return all(isinstance(word, str) for word in argv) and bool(argv[0])


N = TypeVar("N", int, float)


def _number(raw: object, kind: type[N], wanted: str) -> N:
    """Convert without the surprises: True is no number, 1.5 no whole one, and 1_0 is a slip."""
    if isinstance(raw, bool) or not isinstance(raw, str | int | kind):
        raise ValueError(wanted)
    if isinstance(raw, str) and ("_" in raw or not raw.isascii()):
        raise ValueError(wanted)
    try:
        return kind(raw)
    except (ValueError, OverflowError) as error:
        raise ValueError(wanted) from error
