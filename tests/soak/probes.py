"""What one look at a system sees: its processes, its database, Redis, logs and metrics pages."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence

import psutil

from jobqueue.store.pool import Connection
from tests.chaos.system import OURS, Slot, System
from tests.soak.judge import Bound, Place
from tests.soak.processes import KIB, MIB, family, of_process, private_of, pss_of
from tests.support.metrics import metrics_port, read_page

BOUNDS: Mapping[str, Bound] = {
    "RSS": Bound("MiB", 0.05, 2.0),
    "PSS": Bound("MiB", 0.05, 2.0),
    "private": Bound("MiB", 0.10, 4.0),
    "descriptors": Bound("", 0.0, 3.0),
    "threads": Bound("", 0.0, 1.0),
    "processes": Bound("", 0.0, 1.0),
    "connections": Bound("", 0.0, 1.0),
    "memory": Bound("MiB", 0.05, 0.25),
    "series": Bound("", 0.10, 20.0),
    "size of what stays small": Bound("KiB", 0.25, 512.0),
    "dead rows there": Bound("", 0.5, 2000.0),
    "history": Bound("B/job", 0.25, 256.0, per_job=True),
    "log": Bound("B/job", 0.25, 256.0, per_job=True),
}
"""Of every measure. What is per job grows by design: jobs, outcomes, events, lines of log."""

SERVERS = "servers"
_TOGETHER = ("descriptors", "threads")
"""What goes to the other server when a caller, a remote worker or the relay does."""

_HISTORY = ("jobs", "finished", "idempotency_keys")
"""Tables with rows of jobs that have ended, beside the partitions of events."""

_JOBS = "SELECT count(*) FROM jobqueue.jobs"
_CONNECTIONS = """
    SELECT application_name, count(*)::float8 FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
      AND application_name <> $1
    GROUP BY 1
"""
_TABLES = """
    SELECT c.relname = ANY ($1) OR c.relname LIKE 'job\\_events%' AS history,
           sum(pg_total_relation_size(c.oid))::float8 AS bytes,
           coalesce(sum(s.n_dead_tup), 0)::float8 AS dead
    FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
    WHERE c.relnamespace = 'jobqueue'::regnamespace AND c.relkind = 'r'
    GROUP BY 1
"""


class Eye:
    """Looks at one system."""

    def __init__(self, system: System, db: Connection) -> None:
        self._system = system
        self._db = db

    async def look(self) -> tuple[int, dict[Place, float]]:
        """Return how many jobs there are, and everything that is measured."""
        jobs = int(await self._db.fetchval(_JOBS))
        return jobs, {**await asyncio.to_thread(self._processes), **await self._database()}

    def _processes(self) -> dict[Place, float]:
        found: dict[Place, float] = {}
        for slot in self._system.slots.values():
            found |= of_program(slot)
        found = together(found, [name for name in self._system.slots if name.startswith("server")])
        postgres = psutil.Process(self._system.postgres.pid)
        found["PostgreSQL", "private"] = sum(map(private_of, family(postgres))) / MIB
        used = self._system.redis.command("INFO", "memory")["used_memory"]
        return found | {("Redis", "memory"): float(used) / MIB}

    async def _database(self) -> dict[Place, float]:
        rows = await self._db.fetch(_CONNECTIONS, OURS)
        found: dict[Place, float] = {(row[0], "connections"): row[1] for row in rows}
        for row in await self._db.fetch(_TABLES, _HISTORY):
            if row["history"]:
                found["tables", "history"] = row["bytes"]
            else:
                found["tables", "size of what stays small"] = row["bytes"] / KIB
                found["tables", "dead rows there"] = row["dead"]
        return found


def together(values: Mapping[Place, float], names: Sequence[str]) -> dict[Place, float]:
    """Return the values with what these programs hold by turns in one sum."""
    found: dict[Place, float] = {}
    for (name, what), value in values.items():
        shared = name in names and what in _TOGETHER
        place = (SERVERS, what) if shared else (name, what)
        found[place] = found.get(place, 0.0) + value
    return found


def of_program(slot: Slot) -> dict[Place, float]:
    """Return what a program holds: itself, its keeper, and all other children together."""
    found: dict[Place, float] = {
        (slot.name, "log"): float(slot.program.size()),
        (slot.name, "series"): float(read_page(metrics_port(slot.program)).series),
    }
    root = psutil.Process(slot.pid)
    found |= of_process(slot.name, root)
    others: Counter[str] = Counter()
    for child in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # a program of a job that has ended meanwhile
            if any("keeper_process" in word for word in child.cmdline()):
                found |= of_process(f"{slot.name} keeper", child)
            else:
                others.update({"processes": 1, "descriptors": child.num_fds()})
                others["PSS"] += pss_of(child)
    if others:
        others_of = f"{slot.name} children"
        found |= {(others_of, what): float(n) for what, n in others.items() if what != "PSS"}
        found[others_of, "PSS"] = others["PSS"] / MIB
    return found
