"""What one process holds, as the kernel tells it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.soak.judge import Place

MIB, KIB = 1024**2, 1024


def of_process(name: str, process: psutil.Process) -> dict[Place, float]:
    """Return what one process holds."""
    with process.oneshot():
        return {
            (name, "RSS"): process.memory_info().rss / MIB,
            (name, "PSS"): pss_of(process) / MIB,
            (name, "descriptors"): float(process.num_fds()),
            (name, "threads"): float(process.num_threads()),
        }


def family(process: psutil.Process) -> Iterator[psutil.Process]:
    """Yield a process and all below it."""
    yield process
    yield from process.children(recursive=True)


def pss_of(process: psutil.Process) -> int:
    """Return its share of the memory that it has with others, in bytes."""
    return _rollup(process.pid, "Pss:")


def private_of(process: psutil.Process) -> int:
    """Return the memory that it has alone, in bytes: shared buffers fill, and are no leak."""
    return _rollup(process.pid, "Private_Clean:", "Private_Dirty:")


def _rollup(pid: int, *lines: str) -> int:
    """Sum up lines of what the kernel says of a process's memory; nothing of one that is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        told = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return sum(
            int(line.split()[1]) * KIB for line in told.splitlines() if line.startswith(lines)
        )
    return 0
