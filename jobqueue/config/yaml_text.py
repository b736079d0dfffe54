"""Reads YAML from people: whatever is wrong with it becomes one line that quotes nothing."""

import yaml

_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
"""What the library lets through of its own conversions: a date in month 13, say."""


class _Loader(yaml.SafeLoader):
    """Refuses what YAML would quietly decide: a key that is given twice."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:  # noqa: FBT001, FBT002 - the library's signature
        try:
            return super().construct_object(node, deep)
        except _UNREADABLE as error:
            problem = f"a value that cannot be read as {str(node.tag).rpartition(':')[2]}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT001, FBT002 - the library's signature
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                problem = "a key that is no text"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            name = str(key_node.value)
            if name in seen:
                problem = f"key {name!r} is given twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


def read_yaml(text: str | bytes) -> object:
    """Return what the text says. Raises ValueError saying what and where, but no value of it."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # A value may be a secret, so the library's own text, which quotes, is not passed on.
        raise ValueError(f"is not YAML: {_where(error)}") from error
    except RecursionError as error:
        raise ValueError("is not YAML: it is nested too deeply") from error


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "unreadable text"
    return f"{problem} in line {mark.line + 1}" if mark is not None else str(problem)
