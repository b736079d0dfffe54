"""Stop PostgreSQL under a server, a direct and a remote worker, and tell how they bear it.

Usage: ``python -m tools.outage [MINUTES]``, or ``make show-outage MINUTES=5``. The probes of each
program are asked every second. Two jobs come due in the outage; what is measured is the time from
the moment PostgreSQL takes connections again to their end. Exit code 1 when ``/healthz`` was ever
red, when ``/readyz`` was green after the outage's first seconds, or when work went on too late.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from jobqueue.client import Client, JobSpec
from jobqueue.embedded.server import EmbeddedPostgres
from tests.support.probes import OK, probe
from tests.support.programs import Program, RemoteWorkerProgram, ServerProgram, WorkerProgram

DIRECT, REMOTE = "default", "remote"
RESUMES_WITHIN_S = 5.0
NOTICED_WITHIN_S = 10.0
"""Two looks of a server, a heartbeat of a worker."""

_DUE_IN_S = 5.0
_PATIENCE_S = 120.0


@dataclass
class Record:
    """What one program said: its probes by second of the outage, its log lines by level."""

    healthz: dict[float, int] = field(default_factory=dict)
    readyz: dict[float, int] = field(default_factory=dict)
    lines: Counter[str] = field(default_factory=Counter)

    @property
    def red_from_s(self) -> float | None:
        """When /readyz turned red to stay so; None: it was green at the end."""
        green = [at for at, status in self.readyz.items() if status == OK]
        later = [at for at in self.readyz if at > max(green, default=-1.0)]
        return min(later, default=None)

    def faults(self) -> Iterator[str]:
        """Yield what should not have been."""
        if set(self.healthz.values()) != {OK}:
            yield "/healthz was red"
        if self.red_from_s is None or self.red_from_s > NOTICED_WITHIN_S:
            yield "/readyz was green in the outage"


@contextmanager
def system(postgres: EmbeddedPostgres, logs: Path) -> Iterator[Mapping[str, Program]]:
    """Yield the three programs, which serve."""
    with ExitStack() as ending:

        def started(program: Program) -> Program:
            ending.callback(program.kill)
            return program.ready()

        server = ServerProgram(postgres.dsn, logs)
        started(server)
        flags = ("--log-level", "info")
        with Client(server.address) as client:
            client.create_queue(REMOTE)
        yield {
            "server": server,
            "direct worker": started(WorkerProgram(postgres.dsn, logs, *flags)),
            "remote worker": started(
                RemoteWorkerProgram(server.address, logs, *flags, "--queues", REMOTE)
            ),
        }


def watch(programs: Mapping[str, Program], seconds: float) -> Mapping[str, Record]:
    """Ask every probe each second of the outage."""
    records = {name: Record() for name in programs}
    before = {name: len(program.lines()) for name, program in programs.items()}
    begun = time.monotonic()
    while (at := time.monotonic() - begun) < seconds:
        for name, program in programs.items():
            records[name].healthz[at] = probe(program, "/healthz")[0]
            records[name].readyz[at] = probe(program, "/readyz")[0]
        time.sleep(max(begun + at + 1.0 - time.monotonic(), 0.0))
    for name, program in programs.items():
        records[name].lines.update(line["level"] for line in program.lines()[before[name] :])
    return records


def done_after(client: Client, jobs: Mapping[str, str]) -> Mapping[str, float]:
    """Return the seconds from now until each job is DONE."""
    begun = time.monotonic()
    ended: dict[str, float] = {}
    for queue, job_id in jobs.items():
        client.wait(job_id, timeout_s=_PATIENCE_S)
        ended[queue] = time.monotonic() - begun
    return ended


def outage(seconds: float) -> bool:
    """Run it once; return whether all was as promised."""
    with TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        postgres = EmbeddedPostgres(Path(folder) / "pg", durable=False)
        postgres.start()
        try:
            with system(postgres, logs) as programs:
                return _run(postgres, programs, seconds)
        finally:
            postgres.stop()


def _run(postgres: EmbeddedPostgres, programs: Mapping[str, Program], seconds: float) -> bool:
    server = programs["server"]
    assert isinstance(server, ServerProgram)
    with Client(server.address) as client:
        due = {queue: JobSpec(queue, type="echo", delay_s=_DUE_IN_S) for queue in (DIRECT, REMOTE)}
        jobs = {queue: str(client.submit(spec).job_id) for queue, spec in due.items()}
        postgres.stop()
        print(f"PostgreSQL is stopped for {seconds / 60:g} minutes", flush=True)
        records = watch(programs, seconds)
        postgres.start()
        resumed = done_after(client, jobs)
    return report(records, resumed)


def report(records: Mapping[str, Record], resumed: Mapping[str, float]) -> bool:
    """Print the figures; return whether all was as promised."""
    faults = [f"{name}: {fault}" for name, record in records.items() for fault in record.faults()]
    for name, record in records.items():
        healthy = sum(status == OK for status in record.healthz.values())
        red = "never" if record.red_from_s is None else f"from {record.red_from_s:.0f} s on"
        said = ", ".join(f"{count} {level}" for level, count in sorted(record.lines.items()))
        print(
            f"{name:<14} /healthz green {healthy} of {len(record.healthz)} times"
            f" · /readyz red {red} · log lines: {said or 'none'}"
        )
    for queue, after_s in resumed.items():
        print(
            f"queue {queue:<8} its waiting job was done {after_s:.2f} s after PostgreSQL was back"
        )
        if after_s > RESUMES_WITHIN_S:
            faults.append(f"queue {queue}: work went on after {after_s:.1f} s")
    print("\n".join(faults) if faults else "all as promised")
    return not faults


if __name__ == "__main__":
    sys.exit(0 if outage(60.0 * float(sys.argv[1] if sys.argv[1:] else 5)) else 1)
