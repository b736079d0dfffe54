"""The demo is the first thing a newcomer runs: it must come to its end and prove its claims."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import environment

_ROOT = Path(__file__).parents[2]
_WITHIN_S = 280.0
CLAIMS = 7


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_ends_and_every_claim_of_it_holds() -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=_ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    said = demo.stdout.splitlines()
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert sum(line.startswith("  yes ") for line in said) == CLAIMS
    assert any("kill -9" in line and "ended with -9" in line for line in said)
    assert said[-1] == "every claim holds"
