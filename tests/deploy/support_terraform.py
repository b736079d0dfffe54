"""Terraform's files as data: blocks, what refers to what, who passes what to whom."""

import re
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import hcl2
from hcl2.utils import SerializationOptions

ROOT = Path(__file__).parents[2] / "deploy" / "terraform" / "aws"

_OPTIONS = SerializationOptions(
    with_comments=False, strip_string_quotes=True, explicit_blocks=False
)
_KINDS = ("resource", "data", "ephemeral")
# What may stand before the type of a resource: nothing that makes it a part of a longer name.
_REFERENCE = re.compile(
    r"(?<![\w.\"-])(?:(data|ephemeral)\.)?((?:aws|random)_[a-z0-9_]+)\.([a-z][a-z0-9_]*)"
)
_FIELD = re.compile(r"(\w+) = ")

Body = dict[str, Any]


class Module:
    """One folder of Terraform's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.relative_to(ROOT.parent).as_posix()
        self._files = [_read(path) for path in sorted(folder.glob("*.tf"))]

    @cached_property
    def variables(self) -> dict[str, Body]:
        """Return its variables by name."""
        return dict(self._named("variable"))

    @cached_property
    def outputs(self) -> dict[str, Body]:
        """Return its outputs by name."""
        return dict(self._named("output"))

    @cached_property
    def calls(self) -> dict[str, Body]:
        """Return the modules that it calls, with what it passes to them."""
        return dict(self._named("module"))

    @cached_property
    def locals(self) -> Body:
        """Return its local values."""
        return {name: value for block in self._blocks("locals") for name, value in block.items()}

    @cached_property
    def requirements(self) -> Body:
        """Return what it says of versions."""
        return next(block for block in self._blocks("terraform") if "required_version" in block)

    @cached_property
    def things(self) -> dict[tuple[str, str, str], Body]:
        """Return resources, data sources and ephemeral ones by kind, type and name."""
        return {
            (kind, type_, name): body
            for kind in _KINDS
            for block in self._blocks(kind)
            for type_, named in block.items()
            for name, body in named.items()
        }

    @cached_property
    def text(self) -> str:
        """Return everything that makes use of something: a variable's own test is no use."""
        return "\n".join(
            text
            for file in self._files
            for kind, blocks in file.items()
            if kind != "variable"
            for text in strings(blocks)
        )

    def resources(self, type_: str) -> dict[str, Body]:
        """Return the resources of one type by name."""
        return {n: b for (kind, t, n), b in self.things.items() if (kind, t) == ("resource", type_)}

    def called(self, name: str) -> "Module":
        """Return the module that a call names."""
        return load((self.folder / self.calls[name]["source"]).resolve())

    def references(self, prefix: str) -> set[str]:
        """Return the names that follow ``prefix.`` in expressions."""
        return set(re.findall(rf"(?<![\w.-]){prefix}\.(\w+)", self.text))

    def thing_references(self) -> set[tuple[str, str, str]]:
        """Return the resources, data sources and ephemeral ones that expressions name."""
        return {
            (kind or "resource", type_, name) for kind, type_, name in _REFERENCE.findall(self.text)
        }

    def call_references(self) -> set[tuple[str, str]]:
        """Return (module, output) wherever an expression uses one."""
        found = re.findall(r"(?<![\w.-])module\.(\w+)(?:\[[^\]]*\])?\.(\w+)", self.text)
        return set(found)

    def _blocks(self, kind: str) -> Iterator[Body]:
        for file in self._files:
            yield from file.get(kind, [])

    def _named(self, kind: str) -> Iterator[tuple[str, Body]]:
        for block in self._blocks(kind):
            yield from block.items()


@cache
def load(folder: Path) -> Module:
    """Read a folder, once."""
    return Module(folder)


def modules() -> list[Module]:
    """Return every folder that holds files of Terraform."""
    return [load(folder) for folder in sorted({path.parent for path in ROOT.rglob("*.tf")})]


def examples() -> list[Module]:
    """Return the folders in which people run Terraform."""
    return [load(path) for path in sorted((ROOT / "examples").iterdir()) if path.is_dir()]


def fields(variable: Body) -> set[str]:
    """Return the names that an object given to the variable may have."""
    type_ = str(variable["type"])
    return set(_FIELD.findall(type_)) if type_.startswith("${object(") else set()


def required(module: Module) -> set[str]:
    """Return the variables that a call has to give."""
    return {name for name, body in module.variables.items() if "default" not in body}


def strings(value: object) -> Iterator[str]:
    """Yield every string inside a value, keys included, as these may be expressions."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


def pairs(value: object) -> Iterator[tuple[str, object]]:
    """Yield every name with its value, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key), inner
            yield from pairs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pairs(inner)


def _read(path: Path) -> Body:
    text = path.read_text(encoding="utf-8")
    return dict(hcl2.loads(text, serialization_options=_OPTIONS))
