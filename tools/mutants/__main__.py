"""Breaks the product in one place after the other, and demands that a test notices each time.

    python -m tools.mutants [--markdown FILE] [WORD …]

Only those whose name contains one of the words, where some are given. Each mutant lives in a copy
of the checkout. First the chosen tests must pass in an unbroken copy: a test that fails anyway
notices nothing. ``--markdown`` writes who noticed into the table of a document; the rows of mutants
that were not run stay. Ends with 0 if every mutant was noticed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.postgres import DEFAULT, running_postgres
from tools.mutants.catalogue import MUTANTS
from tools.mutants.mutant import Mutant
from tools.mutants.table import rows_of, with_rows

_ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "node_modules")
_FAILED = 1  # pytest: tests were run, and some failed
_FIRST = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
# What fails before the first test has begun is a product that does not start: anybody sees that.
_BEGAN = re.compile(r"\d+ (?:passed|failed)")


def main(arguments: Sequence[str]) -> int:
    """Run those that were asked for, print a line for each, and write them down."""
    asked = _asked(arguments)
    chosen = [m for m in MUTANTS if not asked.words or any(w in m.name for w in asked.words)]
    with TemporaryDirectory(prefix="jobqueue-mutants-") as folder:
        copy = Path(folder) / "jobqueue"
        shutil.copytree(_ROOT, copy, ignore=_LEFT_OUT, symlinks=True)
        with running_postgres(
            DEFAULT, Path(folder)
        ) as dsn:  # one for all: each start costs seconds
            trial = Trial(copy, dsn)
            if fault := trial.unbroken(chosen):
                print(fault)
                return 2
            found = {mutant.name: trial.noticed_by(mutant) for mutant in chosen}
    noticed = {name: by for name, by in found.items() if by is not None}
    print(f"{len(noticed)} of {len(chosen)} mutants were noticed")
    if asked.markdown:
        _write(asked.markdown, noticed, dropped=found.keys() - noticed.keys())
    return 0 if len(noticed) == len(chosen) else 1


class Trial:
    """A copy of the checkout, and a database for its tests."""

    def __init__(self, copy: Path, dsn: str) -> None:
        self._copy = copy
        self._env = {
            **os.environ,
            "PYTHONPATH": str(copy),  # programs that tests start find the copy's package too
            "PYTHONDONTWRITEBYTECODE": "1",
            "JQ_TEST_DATABASE_URL": dsn,
        }

    def unbroken(self, chosen: Sequence[Mutant]) -> str:
        """Run all tests of these without any mutant; return what failed, or nothing."""
        tests = sorted({path for mutant in chosen for path in mutant.tests.split()})
        print(f"{len(chosen)} mutants; first the tests without any: {' '.join(tests)}", flush=True)
        ended = self._run(tests)
        return ended.stdout[-3000:] if ended.returncode else ""

    def noticed_by(self, mutant: Mutant) -> str | None:
        """Plant a mutant for as long as its tests run; return the first that fails, if one does."""
        path = self._copy / mutant.file
        whole = path.read_text(encoding="utf-8")
        path.write_text(broken(whole, mutant), encoding="utf-8")
        try:
            ended = self._run(mutant.tests.split(), "-x")
        finally:
            path.write_text(whole, encoding="utf-8")
        first = _FIRST.search(ended.stdout)
        noticed = ended.returncode == _FAILED and first and _BEGAN.search(ended.stdout)
        by = first[1] if noticed and first else None
        print(f"| {mutant.name} | {by or f'NOBODY (pytest: {ended.returncode})'} |", flush=True)
        return by

    def _run(self, tests: Iterable[str], *flags: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "pytest", "-q", "--pg", DEFAULT, "-p", "no:cacheprovider"]
        return subprocess.run(
            [*command, *flags, *tests],
            cwd=self._copy,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def broken(text: str, mutant: Mutant) -> str:
    """Return the text with the change. Raises ValueError when there is nothing to change."""
    parts = text.split(mutant.old)
    if len(parts) <= mutant.nth:
        raise ValueError(f"{mutant.file} has no {mutant.old!r}")
    before, after = parts[: mutant.nth], parts[mutant.nth :]
    return mutant.old.join(before) + mutant.new + mutant.old.join(after)


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("words", nargs="*", metavar="WORD", help="in the names of those to run")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table in it")
    return parser.parse_args(arguments)


def _write(document: Path, noticed: dict[str, str], *, dropped: Iterable[str]) -> None:
    text = document.read_text(encoding="utf-8")
    rows = {name: by for name, by in rows_of(text).items() if name not in set(dropped)}
    order = [mutant.name for mutant in MUTANTS]
    document.write_text(with_rows(text, rows | noticed, order), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
