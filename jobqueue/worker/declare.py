"""The ``@handler`` decorator: a function says which job type it runs."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from jobqueue.domain.limits import Limits, name_faults, positive_faults

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a function was made: a file and line, and which run of its module did it."""

    file: str
    line: int
    run: object

    def copied_to(self, other: "_Place") -> bool:
        """Tell whether one text, run once, made functions here and there.

        A module that is reloaded, perhaps changed, runs again; one line may be run many times.
        """
        same = self.file == other.file and self.run is other.run
        return same and self.line != other.line


@dataclass(frozen=True, slots=True)
class Function:
    """A declared Python handler. ``timeout_s`` None: the job's or the worker's own applies."""

    type: str
    call: Callable[..., Any]
    timeout_s: float | None = None
    threads: bool = False
    on_loop: bool = field(init=False)  # an async function runs on the worker's event loop
    place: _Place | None = field(init=False, compare=False, repr=False)  # None: it has no code

    def __post_init__(self) -> None:
        """Look once what kind of function it is, and where it was made."""
        object.__setattr__(self, "on_loop", _is_async(self.call))
        object.__setattr__(self, "place", _place(self.call))

    @property
    def name(self) -> str:
        """Where the function is: ``module.qualname``."""
        return f"{self.call.__module__}.{getattr(self.call, '__qualname__', self.call)}"


def handler(type: str, *, timeout: float | None = None, threads: bool = False) -> Callable[[F], F]:  # noqa: A002 - the word users know
    """Declare an async or sync function of one ``Context`` as the handler of a job type.

    A job without a type goes to the handler named like its queue, else to the one named
    ``default``. ``timeout`` is in seconds; a job's own run timeout wins over it. A sync function
    runs in a child process, where it can be killed; with ``threads`` it runs in a thread of the
    worker: cheaper, but nothing can end it, so a timeout or cancel that it ignores ends the whole
    worker. Raises ValueError for a bad or taken type, a bad timeout, ``threads`` on an async
    function, and a function that cannot be called with one argument.
    """

    def declare(function: F) -> F:
        declared = Function(type, function, timeout, threads)
        _check(declared)
        _DECLARED[type] = declared
        return function

    return declare


def declared() -> Mapping[str, Function]:
    """Return everything declared so far in this process, by job type."""
    return MappingProxyType(_DECLARED)


_DECLARED: dict[str, Function] = {}


def _check(new: Function) -> None:
    faults = [
        *name_faults("type", new.type, Limits()),
        *positive_faults("timeout", new.timeout_s, Limits().delay_s),
    ]
    if faults:
        raise ValueError("; ".join(f"{f.field} {f.description}" for f in faults))
    if new.threads and new.on_loop:
        raise ValueError(f"{new.name} is async: it runs on the loop, never in a thread")
    _check_signature(new)
    _check_free(new)


def _check_free(new: Function) -> None:
    """Refuse a taken type. To declare the same function again, as a reload does, is no conflict."""
    old = _DECLARED.get(new.type)
    if old is None:
        return
    taken = f"job type {new.type!r} is taken by {old.name}"
    if old.name != new.name:
        raise ValueError(f"{taken}; {new.name} cannot have it")
    if old.place and new.place and old.place.copied_to(new.place):
        raise ValueError(f"{taken} in line {old.place.line}; line {new.place.line} repeats it")


def _check_signature(new: Function) -> None:
    try:
        inspect.signature(new.call).bind(object())
    except TypeError as error:
        raise ValueError(f"{new.name} must take one argument, the Context: {error}") from error


def _place(call: Callable[..., Any]) -> _Place | None:
    function = inspect.unwrap(call)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    # Each run of a module has a spec of its own, though a reload keeps its globals.
    run = getattr(function, "__globals__", {}).get("__spec__")
    return _Place(code.co_filename, code.co_firstlineno, run)


def _is_async(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - an object with an async __call__ is async too
    )
