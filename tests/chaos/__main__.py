"""Runs a whole system through accidents, and decides whether it kept its promises.

    python -m tests.chaos --jobs 5000 --rounds 1 --seed 7

Prints the seed, what landed, and what was found. Ends with 0 only if nothing was.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.report import tell
from tests.chaos.run import Run


def say(text: str) -> None:
    """Print at once: who waits for the end wants to know the seed now."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run once, from the command line."""
    arguments = argparse.ArgumentParser(prog="chaos", description=__doc__)
    arguments.add_argument("--jobs", type=int, default=5_000)
    arguments.add_argument("--rounds", type=float, default=1.0, help="times the accidents of one")
    arguments.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments.add_argument("--keep", action="store_true", help="keep logs and notes")
    given = arguments.parse_args()
    say(f"seed {given.seed}")
    folder = Path(tempfile.mkdtemp(prefix="jobqueue-chaos-"))
    run = Run(folder, random.Random(given.seed), given.jobs, given.rounds)
    outcome = asyncio.run(run.go())
    say(tell(outcome))
    return 0 if outcome.passed else 1


if __name__ == "__main__":
    sys.exit(main())
