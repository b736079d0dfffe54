"""Programs that checks of manifests need, and a developer may lack."""

import os
import shutil
from typing import NoReturn

import pytest


def find_tool(name: str) -> str:
    """Return the path of a program. Without it the test is skipped, or fails where it must run.

    `JQ_REQUIRE_KUBECTL=1` says so for kubectl, and so on.
    """
    found = shutil.which(name)
    if found is None:
        refuse_or_skip(name, f"there is no {name}")
    return found


def refuse_or_skip(tool: str, reason: str) -> NoReturn:
    """End the test for want of a tool."""
    required = f"JQ_REQUIRE_{tool.upper()}"
    if os.environ.get(required) == "1":
        pytest.fail(f"{reason}, and {required} is set")
    pytest.skip(reason)
