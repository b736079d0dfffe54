"""`jq-ctl job cancel`, `retry`, `delete`: the answer is the truth (R-3.12 to R-3.14)."""

from pathlib import Path

from tests.e2e.conftest import PATIENT, Ctl
from tests.support.waiting import eventually_sync


def refused(ctl: Ctl, *arguments: str) -> str:
    """Return what is told when the job is in the wrong state for that."""
    ended = ctl(*arguments)
    assert (ended.code, ended.out) == (4, "")
    return ended.err


def test_a_waiting_job_is_cancelled_at_once(ctl: Ctl, queue: str) -> None:
    job_id = ctl.submit(queue=queue)
    assert ctl.ok("job", "cancel", job_id) == "CANCELLED\n"
    job = ctl.json("job", "status", job_id)
    assert (job["status"], job["reason"]) == ("DEAD_LETTERED", "CANCELLED")
    assert "DEAD_LETTERED" in refused(ctl, "job", "cancel", job_id)


def test_a_running_job_is_cancelled_only_when_asked_for(ctl: Ctl, tmp_path: Path) -> None:
    note = tmp_path / "note"
    job_id = ctl.submit("--type", "async-sleeps", payload=str(note))
    ctl.becomes(job_id, "RUNNING")
    assert "RUNNING" in refused(ctl, "job", "cancel", job_id)
    assert ctl.ok("job", "cancel", job_id, "--running") == "CANCEL_REQUESTED\n"
    job = ctl.becomes(job_id, "DEAD_LETTERED")
    assert (job["reason"], job["attempt"]) == ("CANCELLED", 1)
    assert note.read_text(encoding="ascii") == "True"


def test_a_cancelled_command_is_dead_when_its_job_is(ctl: Ctl, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = f'{{"command": "trap \\"\\" TERM; echo $$ > {note}; sleep 60; sleep 60"}}'
    job_id = ctl.submit("--type", "shell", payload=command)
    pid = eventually_sync(lambda: note.exists() and note.read_text(encoding="ascii").strip())
    ctl.ok("job", "cancel", job_id, "--running")
    ctl.becomes(job_id, "DEAD_LETTERED")
    assert not Path(f"/proc/{pid}").exists()


def test_a_done_job_cannot_be_cancelled_or_retried(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "echo", "--wait")
    assert "DONE" in refused(ctl, "job", "cancel", job_id, "--running")
    assert "DONE" in refused(ctl, "job", "retry", job_id)


def test_a_failed_job_is_retried_now_and_its_counters_begin_again(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "raises", queue=PATIENT, payload="value")
    assert ctl.becomes(job_id, "FAILED")["retry_count"] == 1
    assert ctl.ok("job", "retry", job_id) == "PENDING\n"
    job = ctl.becomes(job_id, "FAILED")
    assert (job["retry_count"], job["attempt"]) == (1, 2)


def test_a_dead_job_begins_a_new_life(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "raises", payload="fail")
    assert ctl.becomes(job_id, "DEAD_LETTERED")["reason"] == "REFUSED"
    assert ctl.ok("job", "retry", job_id) == "PENDING\n"
    ctl.becomes(job_id, "DEAD_LETTERED")
    events = ctl.json("job", "logs", job_id)["events"]
    life = ["job.assigned", "job.started", "job.failed", "job.dead-lettered"]
    told = [event["type"] for event in events]
    assert told == ["job.submitted", *life, "job.revived", *life]
    assert [event["attempt"] for event in events if event["type"] == "job.started"] == [1, 1]


def test_only_an_ended_job_is_deleted_and_its_key_is_free_again(ctl: Ctl, queue: str) -> None:
    key = ("--idempotency-key", f"key of {queue}")
    job_id = ctl.submit(*key, queue=queue, payload="one")
    assert "PENDING" in refused(ctl, "job", "delete", job_id)
    ctl.ok("job", "cancel", job_id)
    assert ctl.ok("job", "delete", job_id) == "DELETED\n"
    assert ctl("job", "status", job_id).code == 3
    assert ctl.submit(*key, queue=queue, payload="two") != job_id
