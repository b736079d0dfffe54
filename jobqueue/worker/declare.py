"""The ``@handler`` decorator: a function says which job type it runs."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from jobqueue.domain.limits import Limits, name_faults, positive_faults

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Function:
    """A declared Python handler. ``timeout_s`` None: the job's or the worker's own applies."""

    type: str
    call: Callable[..., Any]
    timeout_s: float | None = None
    threads: bool = False
    on_loop: bool = field(init=False)  # an async function runs on the worker's event loop

    def __post_init__(self) -> None:
        """Look once what kind of function it is."""
        object.__setattr__(self, "on_loop", _is_async(self.call))

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
    old = _DECLARED.get(new.type)
    # A reloaded module declares the same function again; that is no conflict.
    if old is not None and old.name != new.name:
        raise ValueError(f"job type {new.type!r} is taken by {old.name}; {new.name} cannot have it")


def _check_signature(new: Function) -> None:
    try:
        inspect.signature(new.call).bind(object())
    except TypeError as error:
        raise ValueError(f"{new.name} must take one argument, the Context: {error}") from error


def _is_async(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - an object with an async __call__ is async too
    )
