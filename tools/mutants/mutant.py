"""What a mutant is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken promise: ``old`` becomes ``new``, at its ``nth`` place in the file."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    nth: int = 1
