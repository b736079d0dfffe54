"""Job type → what runs it. An unknown type is an outcome, never a crash."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jobqueue.domain.limits import Limits, name_faults
from jobqueue.errors import Fault, SettingsError
from jobqueue.worker.declare import Function, declared
from jobqueue.worker.endings import describe

SHELL_TYPE = "shell"
SHELL_TIMEOUT_S = 300.0
DEFAULT_HANDLER = "default"


@dataclass(frozen=True, slots=True)
class Command:
    """A program: payload on its stdin, result from its stdout."""

    type: str
    argv: tuple[str, ...]
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs the command line that the payload names."""

    type: str = SHELL_TYPE
    timeout_s: float | None = SHELL_TIMEOUT_S


Handler = Function | Command | Shell


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything this worker can run."""

    handlers: Mapping[str, Handler]
    modules: tuple[str, ...] = ()
    types: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(sorted(self.handlers)))

    def resolve(self, queue: str, type: str | None) -> Handler | None:  # noqa: A002 - a job's type
        """Return what runs such a job, or None.

        A job without a type goes to the handler named like its queue, else to ``default``.
        """
        if type is not None:
            return self.handlers.get(type)
        return self.handlers.get(queue) or self.handlers.get(DEFAULT_HANDLER)

    def untyped(self, queue: str) -> bool:
        """Return whether jobs of ``queue`` that have no type can run here."""
        return self.resolve(queue, None) is not None

    @property
    def needs_children(self) -> bool:
        """True when some handler runs in a child process."""
        return any(
            isinstance(h, Function) and not h.on_loop and not h.threads
            for h in self.handlers.values()
        )


def load_handlers(
    modules: Sequence[str],
    commands: Mapping[str, Sequence[str]] | None = None,
    *,
    allow_shell: bool = False,
) -> Registry:
    """Import ``modules`` and join what they declare with commands and the shell.

    Raises SettingsError with every fault: a module that cannot be imported, an empty command, a
    type claimed twice.
    """
    faults = [fault for name in modules for fault in _import(name)]
    handlers: dict[str, Handler] = dict(declared())
    more: list[Command | Shell] = [*_commands(commands or {})]
    if allow_shell:
        more.append(Shell())
    faults += _clashes(handlers, more)
    if faults:
        raise SettingsError(faults)
    handlers.update({h.type: h for h in more})
    return Registry(handlers, tuple(modules))


def _import(name: str) -> Iterable[Fault]:
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module's own code may raise anything
        yield Fault("worker.handlers", f"cannot import {name!r}: {describe(error)}")


def _commands(commands: Mapping[str, Sequence[str]]) -> list[Command]:
    return [Command(type_, tuple(argv)) for type_, argv in commands.items()]


def _clashes(handlers: Mapping[str, Handler], more: Sequence[Command | Shell]) -> list[Fault]:
    faults, taken = [], set(handlers)
    for new in more:
        key = f"worker.commands.{new.type}" if isinstance(new, Command) else "worker.allow_shell"
        faults += [Fault(key, v.description) for v in name_faults(key, new.type, Limits())]
        if isinstance(new, Command) and not (new.argv and new.argv[0]):
            faults.append(Fault(key, "names no program"))
        if new.type in taken:
            faults.append(Fault(key, f"job type {new.type!r} has another handler already"))
        taken.add(new.type)
    return faults
