"""Values that are made for every job."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a dataclass that the type checker holds to be frozen.

    At run time it is not: a frozen one sets each field by a call, which makes a job of 20 fields
    ten times as dear.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
