"""What a cell cost: processor time of process trees, WAL, memory, and what others used meanwhile.

Wall-clock figures of a small or shared machine are noise; processor time and WAL per job repeat.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import asyncpg
import psutil

_WAL = "SELECT pg_current_wal_insert_lsn()"  # bytes, to the driver
_IMAGES = "SELECT coalesce(sum(fpi_size), 0)::float8 FROM pg_get_wal_stats($1::pg_lsn, $2::pg_lsn)"
_NOTHING_LOGGED = (asyncpg.InternalServerError, asyncpg.InvalidParameterValueError)
"""No record lies after the place, or nothing has reached the disk since."""

MICROSECONDS = 1e6

DATABASE, SERVER, WORKERS, LOAD = "db", "server", "worker", "load"
"""Groups of processes: PostgreSQL, jq-server, whoever runs jobs, whoever submits and measures."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All counters at one moment; times in seconds."""

    at: float
    cpu: Mapping[str, float]
    busy: float
    wal: int


@dataclass(frozen=True, slots=True)
class Window:
    """What lies between two readings."""

    seconds: float
    cpu: Mapping[str, float]
    foreign: float
    wal: float
    images: float = 0.0

    def values(self, jobs: float) -> dict[str, float]:
        """Return the rate, and what each job cost; nothing done is reckoned as one job."""
        count = max(jobs, 1)
        costs = {f"{group}_us": used * MICROSECONDS / count for group, used in self.cpu.items()}
        return {
            "jobs": jobs,
            "seconds": self.seconds,
            "jobs_per_s": jobs / self.seconds,
            "wal_b": (self.wal - self.images) / count,
            "image_b": self.images / count,
            "foreign_pct": self.foreign_pct,
            "busy_pct": self.busy_pct,
            **costs,
        }

    @property
    def foreign_pct(self) -> float:
        """How much of the machine went to others."""
        return self._share(self.foreign)

    @property
    def busy_pct(self) -> float:
        """How much of the machine was used at all."""
        return self._share(self.foreign + sum(self.cpu.values()))

    def _share(self, used: float) -> float:
        return 100 * used / (self.seconds * (os.cpu_count() or 1))


def between(first: Reading, last: Reading) -> Window:
    """Return what happened between two readings."""
    seconds = last.at - first.at
    cpu = {group: last.cpu[group] - first.cpu.get(group, 0.0) for group in last.cpu}
    foreign = max(last.busy - first.busy - sum(cpu.values()), 0.0)
    return Window(seconds, cpu, foreign, last.wal - first.wal)


class Meter:
    """Reads the counters of one cell. The harness itself counts as load."""

    def __init__(self, connection: asyncpg.Connection, database_pid: int) -> None:
        self._connection = connection
        self._groups: dict[str, list[int]] = {DATABASE: [database_pid], LOAD: [os.getpid()]}

    def watch(self, group: str, pids: Iterable[int]) -> None:
        """Count these processes, and all below them, for a group."""
        self._groups.setdefault(group, []).extend(pids)

    async def read(self) -> Reading:
        """Take a reading."""
        wal = int(await self._connection.fetchval(_WAL))
        children = _children()
        apart = {pid for group in self._groups.values() for pid in group}
        cpu = {
            group: sum(_tree_cpu(pid, children, apart - {pid}) for pid in pids)
            for group, pids in self._groups.items()
        }
        return Reading(time.monotonic(), cpu, _busy(), wal)

    async def since(self, first: Reading) -> Window:
        """Take a reading, and return what happened since an earlier one.

        A page that changes for the first time after a checkpoint goes into the WAL as a whole.
        How many do is a matter of checkpoints, not of designs, so it is told apart.
        """
        last = await self.read()
        try:
            images = float(await self._connection.fetchval(_IMAGES, first.wal, last.wal))
        except _NOTHING_LOGGED:
            images = 0.0
        return replace(between(first, last), images=images)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for process in psutil.process_iter(["ppid"]):
        found.setdefault(process.info["ppid"], []).append(process.pid)
    return found


def _tree_cpu(pid: int, children: Mapping[int, list[int]], apart: set[int]) -> float:
    """Sum over a tree; what has ended is in the counters of those who waited for it.

    ``apart`` are processes that are counted by themselves.
    """
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        times = psutil.Process(pid).cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
    below = (child for child in children.get(pid, ()) if child not in apart)
    return total + sum(_tree_cpu(child, children, apart) for child in below)


def _busy() -> float:
    """Return the seconds in which any processor was not idle; stolen time is not ours either."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - _counted_twice(times))


def _counted_twice(times: object) -> float:
    # Linux counts the time of guests in user and nice, too.
    return float(getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0))


def tree_rss(pid: int) -> int:
    """Return the resident bytes of a process and all below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return sum(_rss(process) for process in (root, *root.children(recursive=True)))
    return 0


def _rss(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0
