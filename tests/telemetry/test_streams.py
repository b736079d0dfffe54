"""Programs whose output nobody takes."""

import subprocess
import sys
from pathlib import Path

from jobqueue.client import Client, JobSpec, JobStatus
from tests.support.programs import environment
from tests.telemetry.conftest import Traced

WITHOUT_STDOUT = ("/bin/sh", "-c", 'exec "$0" "$@" >&-')


def start_without_stdout(dsn: str, queue: str) -> subprocess.Popen[bytes]:
    """Start a worker whose first socket would get the number of stdout."""
    worker = str(Path(sys.executable).parent / "jq-worker")
    flags = ("--queues", queue, "--handlers", "tests.support.leaky_handlers")
    env = environment(db_url=dsn, health_port=0, metrics_port=0)
    return subprocess.Popen([*WITHOUT_STDOUT, worker, *flags], env=env)


async def test_a_worker_that_has_no_stdout_runs_jobs_and_ends_as_asked(traced: Traced) -> None:
    with Client(traced.server.address) as client:
        client.create_queue("mute")
        with start_without_stdout(traced.programs.dsn, "mute") as program:
            try:
                returned, raised = (
                    client.submit(JobSpec("mute", b"x", type_, max_retries=0)).job_id
                    for type_ in ("returns", "raises-in-process")
                )
                assert client.wait(returned, timeout_s=60).status == JobStatus.DONE
                error = client.wait(raised, timeout_s=60).last_error or ""
                assert error.startswith("KeyError"), "the handler process could not be used"
                program.terminate()
                assert program.wait(60) == 0
            finally:
                program.kill()
