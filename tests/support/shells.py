"""Commands as a shell runs them, for what only pipes and redirections show."""

import subprocess
from collections.abc import Mapping


def in_bash(script: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a script that must end with 0, and return what it wrote."""
    return subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
