"""Runs a whole system under steady work, and decides whether anything grows.

    python -m tests.soak --minutes 10 --rate 20

Ends with 0 when all is flat, 1 when something grows or a promise is broken, and 2 when the run was
too short or too poor to say so.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.__main__ import say
from tests.soak.judge import TooShort
from tests.soak.report import tell
from tests.soak.run import Outcome, Soak

GROWN, UNKNOWN = 1, 2


def main() -> int:
    """Run once, from the command line."""
    arguments = argparse.ArgumentParser(prog="soak", description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--rate", type=float, default=20.0, help="jobs a second")
    arguments.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments.add_argument("--keep", action="store_true", help="keep logs and notes")
    given = arguments.parse_args()
    say(f"seed {given.seed}")
    folder = Path(tempfile.mkdtemp(prefix="jobqueue-soak-"))
    soak = Soak(folder, random.Random(given.seed), 60 * given.minutes, given.rate)
    try:
        return judged(asyncio.run(soak.go()))
    except TooShort as error:
        say(f"not judged: {error}")
        return UNKNOWN
    finally:
        if given.keep:
            say(f"kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def judged(outcome: Outcome) -> int:
    """Tell what came of it, and return the exit code."""
    say(tell(outcome))
    if not outcome.passed:
        return GROWN
    if outcome.missing:
        say(f"there was no {', no '.join(outcome.missing)}")
        return UNKNOWN
    return 0


if __name__ == "__main__":
    sys.exit(main())
