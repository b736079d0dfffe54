"""Helm's library in a program of its own: a request a line on stdin, an answer a line on stdout.

Apart, because it is a Go runtime with signal handlers and threads: it must not live in the process
of the tests, which start, signal and count processes. Its own log goes to stderr.
"""

import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from helm_python.chart import Chart, lint, package
from helm_python.errors import HelmError

Request = Mapping[str, Any]


@cache
def _chart(path: str) -> Chart:
    return Chart.load(path)


def _render(request: Request) -> Any:
    how = {"name": request["name"], "namespace": request["namespace"]}
    return _chart(request["chart"]).render(request["values"], **how)


def _lint(request: Request) -> Any:
    return lint(request["chart"], request["values"], strict=True)["messages"]


def _package(request: Request) -> Any:
    return package(request["chart"], destination=request["destination"])


_DOERS: Mapping[str, Callable[[Request], Any]] = {
    "render": _render,
    "lint": _lint,
    "package": _package,
}


def _answer(request: Request) -> Mapping[str, Any]:
    try:
        return {"done": _DOERS[request["do"]](request)}
    except HelmError as error:
        return {"refused": str(error)}


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)  # noqa: T201 - it is the answer


if __name__ == "__main__":
    main()
