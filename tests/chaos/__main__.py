"""Runs a whole system through accidents, and decides whether it kept its promises.

    python -m tests.chaos --jobs 5000 --rounds 1 --seed 7

Prints the seed, what landed, and what was found. Ends with 0 only if nothing was.
"""

import argparse
import asyncio
import logging
import random
import shutil
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
    arguments.add_argument("--keep", action="store_true", help="keep logs, notes and database")
    given = arguments.parse_args()
    say(f"seed {given.seed}")
    # A socket's path may have 107 bytes: no longer prefix.
    folder = Path(tempfile.mkdtemp(prefix="jobqueue-chaos-"))
    logging.basicConfig(
        filename=folder / "accidents.log", level=logging.INFO, format="%(asctime)s %(message)s"
    )
    run = Run(folder, random.Random(given.seed), given.jobs, given.rounds)
    try:
        outcome = asyncio.run(run.go())
    finally:
        if given.keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    say(tell(outcome))
    return 0 if outcome.passed else 1


if __name__ == "__main__":
    sys.exit(main())
