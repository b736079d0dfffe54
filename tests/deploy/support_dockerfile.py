"""Reads the Dockerfile as far as its tests need it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: the stage that it belongs to, its word, and the rest of its line."""

    stage: str
    word: str
    rest: str


def read_dockerfile() -> list[Instruction]:
    """Return all instructions in their order; those before the first stage have an empty one."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    return list(_instructions(re.sub(r"\\\n\s*", "", text)))


def _instructions(text: str) -> Iterator[Instruction]:
    stage = ""
    for line in filter(None, text.splitlines()):
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            stage = rest.rsplit(maxsplit=1)[-1]
        yield Instruction(stage, word, rest)


def whole(stage: str) -> list[Instruction]:
    """Return the instructions of a stage after those of the stages that it is built from."""
    mine = [each for each in read_dockerfile() if each.stage == stage]
    return [*whole(mine[0].rest.split()[0]), *mine] if mine else []


def last(stage: str, word: str) -> str:
    """Return the rest of the instruction that is in force in a stage."""
    return [each.rest for each in whole(stage) if each.word == word][-1]


def variables(stage: str) -> dict[str, str]:
    """Return what ENV sets in a stage."""
    text = " ".join(each.rest for each in whole(stage) if each.word == "ENV")
    return dict(pair.split("=", 1) for pair in text.split())
