"""Takes out of a virtual environment what one program does not need to run.

    VENV/bin/python trim.py PROGRAM

Works on the environment whose Python runs it. Needs `strip` of binutils.
"""

import compileall
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# What a compiler, a type checker or a C program would read.
SOURCES = {".a", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"}
TESTS = {"test", "tests"}
# Help for the tests of those who use these libraries; jobqueue.testing stays, it is ours.
HELPERS = ("alembic/testing", "mako/testing", "sqlalchemy/testing")
# Compiled for each program. A worker starts Python for sync handlers, jq-ctl for each command; of a
# server that starts once, all would be 12 MB more for half a second.
COMPILED = {"jq-server": ("jobqueue", "google", "grpc"), "jq-worker": (".",), "jq-ctl": (".",)}


def main(program: str) -> None:
    """Trim for ``program`` and say what came of it."""
    if sys.prefix == sys.base_prefix:
        raise SystemExit("trim.py: run it with the Python of the environment that it is to trim")
    root, packages = Path(sys.prefix), Path(sysconfig.get_path("purelib"))
    before = size_of(root)
    found = (find_sources(root), find_tests(packages), other_programs(root, program))
    for unneeded in [path for each in found for path in each]:
        remove(unneeded)
    strip(find_libraries(packages))
    compile_packages(packages, COMPILED[program])
    print(f"{program}: {before / 1e6:.1f} MB, trimmed {size_of(root) / 1e6:.1f} MB")


def find_sources(root: Path) -> Iterator[Path]:
    """Yield what is of use to compilers and type checkers only."""
    yield from (path for path in root.rglob("*") if path.suffix in SOURCES)


def find_tests(packages: Path) -> Iterator[Path]:
    """Yield the libraries' own tests, and their help for tests of others."""
    yield from (path for path in packages.glob("*/**/") if path.name in TESTS)
    yield from (packages / name for name in HELPERS)


def other_programs(root: Path, program: str) -> Iterator[Path]:
    """Yield scripts of the environment that are neither Python nor ``program``."""
    for path in (root / "bin").iterdir():
        if path.name != program and not path.name.startswith("python"):
            yield path


def find_libraries(packages: Path) -> list[Path]:
    """Return every shared library."""
    return [p for p in packages.rglob("*.so*") if p.is_file() and not p.is_symlink()]


def strip(libraries: list[Path]) -> None:
    """Take the symbols out that only a debugger reads."""
    subprocess.run(["strip", "--strip-unneeded", *map(str, libraries)], check=True)


def compile_packages(packages: Path, names: tuple[str, ...]) -> None:
    """Compile them: on a read-only file system no start can do it for the next one.

    The result is trusted without a look at its source: an image does not change.
    """
    for name in names:
        compileall.compile_dir(
            packages / name,
            quiet=1,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def remove(path: Path) -> None:
    """Delete a file or a folder; both may be gone already."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def size_of(root: Path) -> int:
    """Return the bytes of all files, as an image's layer counts them."""
    return sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())


if __name__ == "__main__":
    main(*sys.argv[1:])
