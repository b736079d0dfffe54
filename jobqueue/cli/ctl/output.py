"""Documents for programs: JSON and YAML, whole or a piece at a time."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TypeVar

import click

from jobqueue.cli.ctl.options import globals_of

T = TypeVar("T")


def wants_table(ctx: click.Context) -> bool:
    """Return True when the result is for people."""
    return globals_of(ctx).output == "table"


def print_document(ctx: click.Context, document: Mapping[str, object]) -> None:
    """Print one document."""
    if globals_of(ctx).output == "yaml":
        click.echo(_yaml(document), nl=False)
    else:
        click.echo(_json(document, indent=2))


def print_entry(ctx: click.Context, document: Mapping[str, object]) -> None:
    """Print one of many documents at once: a line of JSON, or a YAML document."""
    if globals_of(ctx).output == "yaml":
        click.echo(f"---\n{_yaml(document)}", nl=False)
    else:
        click.echo(_json(document))
    sys.stdout.flush()


def print_list(
    ctx: click.Context,
    name: str,
    entries: Iterable[Mapping[str, object]],
    after: Mapping[str, object] | None = None,
) -> None:
    """Print one document with a list, written while its entries arrive.

    ``after`` holds the fields that follow the list; it is read when the list has ended. Entries
    that fail before the first one leave nothing behind.
    """
    entries = _begun(entries)
    if globals_of(ctx).output == "yaml":
        _print_yaml_list(name, entries)
        click.echo(_yaml(after) if after else "", nl=False)
        return
    click.echo(f'{{\n"{name}": [', nl=False)
    for index, entry in enumerate(entries):
        click.echo(f"{',' if index else ''}\n{_json(entry)}", nl=False)
    rest = "".join(f',\n"{key}": {_json(value)}' for key, value in (after or {}).items())
    click.echo(f"\n]{rest}\n}}")


def _begun(entries: Iterable[T]) -> Iterator[T]:
    """Return the same entries once the first one is there."""
    rest = iter(entries)
    return chain(list(islice(rest, 1)), rest)


def _print_yaml_list(name: str, entries: Iterable[Mapping[str, object]]) -> None:
    empty = True
    for entry in entries:
        if empty:
            click.echo(f"{name}:")
            empty = False
        click.echo(_yaml([entry]), nl=False)
    if empty:
        click.echo(f"{name}: []")


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=not _takes_unicode(), indent=indent)


def _yaml(value: object) -> str:
    import yaml  # noqa: PLC0415 - start-up time of --help

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=_takes_unicode(), width=10_000)


def _takes_unicode() -> bool:
    """Return False where only escapes are sure to arrive."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
