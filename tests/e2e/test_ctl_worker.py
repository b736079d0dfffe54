"""`jq-ctl worker`, `status`, `version`: who is there and how they are (R-4.7)."""

import signal

from tests.e2e.conftest import PATIENT, Ctl, StartWorker, System
from tests.support.waiting import eventually_sync


def state(ctl: Ctl, worker_id: str) -> str | None:
    """Return the status of a worker; None when it is not registered."""
    workers = {each["worker_id"]: each for each in ctl.json("worker", "list")["workers"]}
    return workers[worker_id]["status"] if worker_id in workers else None


def test_a_list_shows_what_a_worker_is(ctl: Ctl, system: System) -> None:
    (worker,) = (w for w in ctl.json("worker", "list")["workers"] if w["worker_id"] == "e2e")
    assert worker["pid"] == system.worker.process.pid
    assert (worker["status"], worker["mode"], worker["concurrency"]) == ("ACTIVE", "direct", 8)
    assert worker["queues"] == ["default", PATIENT]
    assert {"echo", "shell"} <= set(worker["types"])
    assert worker["started_at"] <= worker["last_beat_at"]
    assert "e2e" in ctl.ok("worker", "list")


def test_an_operator_drains_and_then_shuts_down_a_worker(
    ctl: Ctl, queue: str, start_worker: StartWorker
) -> None:
    worker = start_worker("--queues", queue, "--worker-id", "leaving")
    assert ctl.ok("worker", "drain", "leaving") == "DRAIN_REQUESTED\n"
    eventually_sync(lambda: state(ctl, "leaving") == "DRAINING", within_s=40, what="DRAINING")
    job_id = ctl.submit("--type", "echo", queue=queue)
    assert worker.process.poll() is None
    assert ctl.ok("worker", "shutdown", "leaving") == "SHUTDOWN_REQUESTED\n"
    assert worker.ended() == 0, worker.text()
    assert state(ctl, "leaving") is None
    assert ctl.json("job", "status", job_id)["status"] == "PENDING"


def test_the_job_of_a_killed_worker_runs_at_another_and_the_log_says_why(
    ctl: Ctl, queue: str, start_worker: StartWorker
) -> None:
    short = {"lease_duration_s": 5, "lease_renew_interval_s": 0.5}
    worker = start_worker("--queues", queue, "--worker-id", "killed", **short)
    ctl.ok("queue", "update", queue, "--base-delay", "0.1")
    command = '{"command": "[ $JQ_JOB_ATTEMPT = 1 ] && sleep 60; echo done"}'
    job_id = ctl.submit("--type", "shell", queue=queue, payload=command)
    ctl.becomes(job_id, "RUNNING")
    worker.send(signal.SIGKILL)
    assert worker.ended() == -signal.SIGKILL
    start_worker("--queues", queue, "--worker-id", "heir")
    job = ctl.becomes(job_id, "DONE")
    assert (job["result"], job["attempt"], job["worker_id"]) == ("done\n", 2, "heir")
    failed = [e for e in ctl.json("job", "logs", job_id)["events"] if e["to_status"] == "FAILED"]
    assert [(e["reason"], e["worker_id"]) for e in failed] == [("LEASE_EXPIRED", "killed")]


def test_an_unknown_worker_is_not_found(ctl: Ctl) -> None:
    for verb in ("drain", "shutdown"):
        ended = ctl("worker", verb, "nobody")
        assert (ended.code, ended.out) == (3, "")


def test_status_shows_server_database_queues_and_workers(ctl: Ctl) -> None:
    status = ctl.json("status")
    assert {"postgresql": "ok"}.items() <= {
        part["name"]: part["state"] for part in status["components"]
    }.items()
    assert "default" in {each["queue"] for each in status["queues"]}
    assert "e2e" in {each["worker_id"] for each in status["workers"]}
    shown = ctl.ok("status")
    assert shown.startswith("jq-server ")
    assert {"COMPONENT", "QUEUE", "WORKER"} <= set(shown.split())


def test_version_tells_of_both_programs(ctl: Ctl) -> None:
    both = ctl.json("version")
    assert both["version"] == both["client_version"]
    shown = ctl.ok("version").splitlines()
    assert [line.split()[0] for line in shown] == ["jq-ctl", "jq-server"]
