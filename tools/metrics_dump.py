"""Metrics of both programs after much work: `make metrics-dump`.

Runs a server with Redis and Kafka and a worker, sends jobs to many queues, starts and ends other
workers meanwhile, and then reads both pages. Says how many series there are and whether every
metric is there; ends with 1 when one is missing or there are too many.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc

from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import job_service_pb2 as jobs_pb
from jobqueue.v1.admin_service_pb2_grpc import AdminServiceStub
from jobqueue.v1.job_pb2 import JobSpec
from jobqueue.v1.job_service_pb2_grpc import JobServiceStub
from tests.support.kafka import running_broker
from tests.support.kafka_way import Way
from tests.support.metrics import Page, metrics_port, read_page
from tests.support.programs import ServerProgram, WorkerProgram
from tests.support.redis import RedisServer
from tests.support.waiting import eventually_sync

PER_QUEUE, PER_PROGRAM = 40, 300
_BATCH, _FAILS_EVERY, _AT_ONCE, _TOPIC = 1_000, 50, 3, "jobqueue.events"
_WITHIN_S = 1_800.0

ON_BOTH = (
    *("jq_job_total", "jq_job_retries_total", "jq_job_dead_lettered_total", "jq_job_wait_seconds"),
    *("jq_lease_acquired_total", "jq_db_query_duration_seconds", "jq_loop_last_progress_seconds"),
    "jq_build_info",
)
ON_SERVER = (
    *("jq_job_queue_depth", "jq_queue_runnable", "jq_job_oldest_age_seconds", "jq_job_unhandled"),
    *("jq_worker_active_count", "jq_grpc_request_duration_seconds"),
    *("jq_scheduler_cycle_duration_seconds", "jq_scheduler_jobs_assigned_total"),
    *("jq_kafka_publish_errors_total", "jq_redis_operation_duration_seconds"),
    *("jq_lease_expired_total", "jq_event_backlog", "jq_event_oldest_age_seconds"),
    *("jq_events_parked", "jq_lock_held", "jq_db_oldest_xmin_age_seconds"),
)
ON_WORKER = (
    *("jq_job_processing_duration_seconds", "jq_worker_job_concurrency"),
    *("jq_lease_renewed_total", "jq_lease_lost_total"),
)


@dataclass(frozen=True, slots=True)
class Load:
    """How much work."""

    jobs: int = 20_000
    queues: int = 50
    restarts: int = 100

    def names(self) -> list[str]:
        """Return the queues."""
        return [f"queue-{i:02}" for i in range(self.queues)]


@dataclass(slots=True)
class Findings:
    """What the pages tell: lines for people, and what is wrong."""

    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def look(self, program: str, page: Page, wanted: Sequence[str], queues: int) -> None:
        """Count the series of a program, and look for each metric that it must have."""
        most = PER_QUEUE * queues + PER_PROGRAM
        self.lines.append(f"{program}: {page.series} series, at most {most} allowed")
        if page.series > most:
            self.faults.append(f"{program} has {page.series} series")
        for name in wanted:
            count = sum(sample.name.startswith(name) for sample in page.samples)
            self.lines.append(f"  {name:<40} {count:>5} series")
            if not count:
                self.faults.append(f"{program} lacks {name}")


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs: a server with all its helpers, a worker that stays, and their logs."""

    dsn: str
    logs: Path
    server: ServerProgram
    worker: WorkerProgram


@contextmanager
def running(load: Load, folder: Path) -> Iterator[Stage]:
    """Run everything until the block ends."""
    logs = folder / "logs"
    logs.mkdir()
    with ExitStack() as ending:
        postgres = EmbeddedPostgres(folder / "pg", durable=False)
        postgres.start()
        ending.callback(postgres.stop)
        redis = RedisServer(folder)
        ending.callback(redis.kill)
        broker = ending.enter_context(running_broker())
        way = Way(broker)
        ending.callback(way.close)
        way.open()
        broker.create_topic(_TOPIC)
        (address,) = way.settings(_TOPIC).brokers
        helpers = {"redis_addr": redis.addr, "kafka_brokers": address}
        server = ServerProgram(postgres.dsn, logs, retry_base_delay_s=0.1, **helpers)
        ending.callback(server.kill)
        server.ready(within_s=_WITHIN_S)
        make_queues(server, load.names())
        worker = WorkerProgram(postgres.dsn, logs, *_flags(load, 8))
        ending.callback(worker.kill)
        yield Stage(postgres.dsn, logs, server, worker.ready(within_s=_WITHIN_S))


def _flags(load: Load, concurrency: int) -> Sequence[str]:
    queues = ",".join(load.names())
    return "--queues", queues, "--concurrency", str(concurrency), "--log-level", "info"


def make_queues(server: ServerProgram, names: Sequence[str]) -> None:
    """Make the queues."""
    with grpc.insecure_channel(server.address) as channel:
        for name in names:
            AdminServiceStub(channel).CreateQueue(admin_pb.CreateQueueRequest(name=name))


def work(load: Load, stage: Stage) -> None:
    """Send all jobs, restart workers meanwhile, and wait until every job has ended."""
    with ThreadPoolExecutor(1) as beside, grpc.insecure_channel(stage.server.address) as channel:
        restarting = beside.submit(restart, load, stage)
        specs = [_spec(load, i) for i in range(load.jobs)]
        for start in range(0, load.jobs, _BATCH):
            batch = specs[start : start + _BATCH]
            JobServiceStub(channel).SubmitJobs(jobs_pb.SubmitJobsRequest(jobs=batch))
        restarting.result()
    eventually_sync(lambda: ended(stage, load.jobs), within_s=_WITHIN_S, what="the end of all")


def _spec(load: Load, i: int) -> JobSpec:
    queue = f"queue-{i % load.queues:02}"
    if i % _FAILS_EVERY:
        return JobSpec(queue=queue, type="async-returns", payload=b"none")
    return JobSpec(queue=queue, type="async-raises", payload=b"value", max_retries=1)


def restart(load: Load, stage: Stage) -> None:
    """Start and end workers, some at a time."""
    left = load.restarts
    while left:
        flags = _flags(load, 2)
        some = [WorkerProgram(stage.dsn, stage.logs, *flags) for _ in range(min(left, _AT_ONCE))]
        left -= len(some)
        try:
            for worker in some:
                worker.ready(within_s=_WITHIN_S).process.terminate()
            for worker in some:
                worker.ended(_WITHIN_S)
        finally:
            for worker in some:
                worker.kill()


def ended(stage: Stage, jobs: int) -> bool:
    """Tell whether so many jobs have ended and every event has been published."""
    page = read_page(metrics_port(stage.server))
    depth = page.by("jq_job_queue_depth", "status")
    done = depth["DONE",] + depth["DEAD_LETTERED",]
    return done >= jobs and page.value("jq_event_backlog") == 0


def dump(load: Load, save: Path | None = None) -> Findings:
    """Run, read, and look; keep the pages in ``save``."""
    findings = Findings()
    with TemporaryDirectory(prefix="jobqueue-metrics-") as folder:
        Path(folder).chmod(0o711)  # as root the database may run as nobody
        with running(load, Path(folder)) as stage:
            work(load, stage)
            known = load.queues + 1  # default
            parts = (
                ("jq-server", stage.server, (*ON_BOTH, *ON_SERVER), known),
                ("jq-worker", stage.worker, (*ON_BOTH, *ON_WORKER), load.queues),
            )
            for name, program, wanted, queues in parts:
                page = read_page(metrics_port(program))
                findings.look(name, page, wanted, queues)
                if save is not None:
                    (save / f"{name}.txt").write_text(page.text, encoding="utf-8")
    return findings


def main() -> int:
    """Run with what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = Load()
    for name in ("jobs", "queues", "restarts"):
        parser.add_argument(f"--{name}", type=int, default=getattr(usual, name))
    parser.add_argument("--save", type=Path, help="folder in which to keep the two pages")
    given = parser.parse_args()
    findings = dump(Load(given.jobs, given.queues, given.restarts), given.save)
    print(f"{given.jobs} jobs in {given.queues} queues, {given.restarts} restarts of workers")
    print("\n".join(findings.lines))
    print("\n".join(findings.faults) or "every metric is there")
    return bool(findings.faults)


if __name__ == "__main__":
    sys.exit(main())
