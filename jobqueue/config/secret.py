"""A value that does not show itself."""

from dataclasses import dataclass

MASK = "********"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Text that prints as stars wherever it ends up; `reveal` is the one way to read it."""

    _text: str

    def reveal(self) -> str:
        """Return the text, for the call that needs it. Never log or store the answer."""
        return self._text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__
