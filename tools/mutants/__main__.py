"""Breaks the product in one place after the other, and demands that a test notices each time.

    python -m tools.mutants [WORD …]      # only those whose name contains one of the words

Each mutant lives in a copy of the checkout. First the chosen tests must pass in an unbroken copy:
a test that fails anyway notices nothing. Ends with 0 if every mutant was noticed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.mutants.catalogue import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "node_modules")
_FAILED = 1  # pytest: tests were run, and some failed
_FIRST = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main(words: Sequence[str]) -> int:
    """Run those that were asked for, and print a line for each."""
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="jobqueue-mutants-") as folder:
        copy = Path(folder) / "jobqueue"
        shutil.copytree(_ROOT, copy, ignore=_LEFT_OUT, symlinks=True)
        tests = sorted({path for mutant in chosen for path in mutant.tests.split()})
        print(f"{len(chosen)} mutants; first the tests without any: {' '.join(tests)}", flush=True)
        unbroken = _run(copy, " ".join(tests))
        if unbroken.returncode:
            print(unbroken.stdout[-3000:])
            return 2
        missed = [mutant for mutant in chosen if not _is_noticed(copy, mutant)]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants were noticed")
    return 1 if missed else 0


def broken(text: str, mutant: Mutant) -> str:
    """Return the text with the change. Raises ValueError when there is nothing to change."""
    parts = text.split(mutant.old)
    if len(parts) <= mutant.nth:
        raise ValueError(f"{mutant.file} has no {mutant.old!r}")
    before, after = parts[: mutant.nth], parts[mutant.nth :]
    return mutant.old.join(before) + mutant.new + mutant.old.join(after)


def _is_noticed(copy: Path, mutant: Mutant) -> bool:
    path = copy / mutant.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(broken(whole, mutant), encoding="utf-8")
    try:
        ended = _run(copy, mutant.tests, "-x")
    finally:
        path.write_text(whole, encoding="utf-8")
    first = _FIRST.search(ended.stdout)
    noticed = ended.returncode == _FAILED and first is not None
    by = first[1] if noticed and first else f"NOBODY (pytest ended with {ended.returncode})"
    print(f"| {mutant.name} | {by} |", flush=True)
    return noticed


def _run(copy: Path, tests: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    """Run tests in a copy; programs that they start find the copy's package too."""
    command = [sys.executable, "-m", "pytest", "-q", "--pg", "default", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *flags, *tests.split()],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
