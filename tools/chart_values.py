"""Writes the table of values in the chart's README (`make chart-values`).

A value is documented by the comment above its key in values.yaml, which begins with `# -- `. A
section needs none, its values do; a value that is a mapping has one and is shown whole.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[1] / "deploy" / "helm" / "jobqueue"

_MARK = "# -- "
_BLOCK = re.compile(r"(<!-- values -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "| value | default | meaning |\n|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class Value:
    """A value: its path (`server.image.tag`), its default, what it means."""

    path: str
    default: Any
    meaning: str


def read_values(text: str) -> list[Value]:
    """Return what a values.yaml documents, in its order. Raises ValueError for what it does not."""
    root = yaml.compose(text, yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("values are a mapping")  # noqa: TRY004 - of a file, not of an argument
    return list(_walk(root, "", text.splitlines()))


def table(values: Sequence[Value]) -> str:
    """Return the table of the README."""
    return _HEAD + "".join(map(_row, values))


def renewed(page: str, values: Sequence[Value]) -> str:
    """Return a README with its table made anew. Raises ValueError when it has no place for it."""
    if not _BLOCK.search(page):
        raise ValueError("there is no block of values")
    return _BLOCK.sub(lambda found: found[1] + table(values) + found[2], page)


def _walk(section: yaml.MappingNode, prefix: str, lines: Sequence[str]) -> Iterator[Value]:
    for key, node in section.value:
        path = prefix + key.value
        comment = lines[key.start_mark.line - 1].strip() if key.start_mark.line else ""
        if comment.startswith(_MARK):
            yield Value(path, _plain(node), comment.removeprefix(_MARK))
        elif isinstance(node, yaml.MappingNode) and node.value:
            yield from _walk(node, f"{path}.", lines)
        else:
            raise ValueError(f"{path} is not documented")


def _plain(node: yaml.Node) -> Any:
    """Return what a node stands for."""
    return yaml.safe_load(yaml.serialize(node))


def _row(value: Value) -> str:
    default = value.default
    text = default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
    shown = "—" if default in ("", None) else f"`{text}`"
    return f"| `{value.path}` | {shown} | {value.meaning} |\n"


def main() -> None:
    """Make the table anew."""
    readme = CHART / "README.md"
    values = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
    readme.write_text(renewed(readme.read_text(encoding="utf-8"), values), encoding="utf-8")


if __name__ == "__main__":
    main()
