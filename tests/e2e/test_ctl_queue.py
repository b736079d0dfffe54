"""`jq-ctl queue`: make, change, pause, measure, delete (R-5)."""

from tests.e2e.conftest import Ctl, StartWorker
from tests.support.waiting import eventually_sync


def test_a_queue_has_the_policy_it_was_given(ctl: Ctl) -> None:
    flags = ("--max-retries", "7", "--ttl", "90", "--base-delay", "0.5", "--max-delay", "60")
    more = ("--priority-weights", "9=100,low=5", "--max-running", "4")
    made = ctl.json("queue", "create", "policy", *flags, *more)
    assert (made["name"], made["paused"]) == ("policy", False)
    policy = made["policy"]
    assert (policy["max_retries"], policy["ttl"], policy["max_running"]) == (7, 90, 4)
    assert (policy["base_delay"], policy["max_delay"]) == (0.5, 60)
    assert policy["priority_weights"] == {"9": 100, "1": 5}


def test_an_update_changes_what_is_said_and_none_clears(ctl: Ctl) -> None:
    ctl.ok("queue", "create", "changed", "--max-retries", "7", "--ttl", "90", "--max-running", "4")
    policy = ctl.json("queue", "update", "changed", "--ttl", "none", "--max-running", "5")["policy"]
    assert (policy["max_retries"], policy["ttl"], policy["max_running"]) == (7, None, 5)
    assert ctl("queue", "update", "changed").code == 2
    assert ctl("queue", "update", "no-such-queue", "--ttl", "1").code == 3


def test_a_list_shows_every_queue_in_order(ctl: Ctl, queue: str) -> None:
    names = [each["name"] for each in ctl.json("queue", "list")["queues"]]
    assert {"default", queue} <= set(names)
    assert names == sorted(names)
    assert queue in ctl.ok("queue", "list")


def test_a_queue_that_is_there_cannot_be_made_again(ctl: Ctl, queue: str) -> None:
    ended = ctl("queue", "create", queue)
    assert (ended.code, ended.out) == (4, "")
    assert ctl("queue", "create", "no spaces").code == 2
    assert ctl("queue", "create", "q", "--max-retries", "-1").code == 2


def test_stats_count_jobs_by_status(ctl: Ctl, queue: str) -> None:
    for _ in range(3):
        job_id = ctl.submit(queue=queue)
    ctl.ok("job", "cancel", job_id)
    (stats,) = ctl.json("queue", "stats", queue)["stats"]
    depth = {each["status"]: each["count"] for each in stats["depth"]}
    assert (depth["PENDING"], depth["DEAD_LETTERED"], depth["RUNNING"]) == (2, 1, 0)
    assert (stats["dead_lettered_total"], stats["done_total"]) == (1, 0)
    assert stats["oldest_runnable_age"] > 0
    heading, row = ctl.ok("queue", "stats", queue).splitlines()
    assert heading.split()[:2] == ["QUEUE", "PENDING"]
    assert row.split()[:2] == [queue, "2"]
    assert ctl("queue", "stats", "no-such-queue").code == 3


def test_a_paused_queue_takes_jobs_and_runs_none_until_resumed(
    ctl: Ctl, queue: str, start_worker: StartWorker
) -> None:
    assert ctl.json("queue", "pause", queue)["paused"] is True
    start_worker("--queues", f"{queue},default", "--worker-id", "pausing")
    job_id = ctl.submit("--type", "echo", queue=queue)
    # The worker is awake: it runs a job of another queue that came later.
    ctl.submit("--type", "echo", "--wait")
    assert ctl.json("job", "status", job_id)["status"] == "PENDING"
    assert ctl.json("queue", "resume", queue)["paused"] is False
    ctl.becomes(job_id, "DONE")


def test_a_queue_with_jobs_is_deleted_only_by_force(ctl: Ctl, queue: str) -> None:
    job_id = ctl.submit(queue=queue)
    ended = ctl("queue", "delete", queue)
    assert (ended.code, ended.out) == (4, "")
    assert ctl.ok("queue", "delete", queue, "--force") == "DELETED (1 jobs cancelled)\n"
    job = ctl.json("job", "status", job_id)
    assert (job["status"], job["reason"]) == ("DEAD_LETTERED", "CANCELLED")
    assert ctl("queue", "delete", queue).code == 3
    ctl.ok("queue", "create", queue)
    assert ctl.json("job", "list", "--queue", queue, "--status", "PENDING")["jobs"] == []
    assert ctl.ok("queue", "delete", queue) == "DELETED\n"


def test_force_also_ends_what_runs(ctl: Ctl, queue: str, start_worker: StartWorker) -> None:
    start_worker("--queues", queue, "--worker-id", "forced")
    job_id = ctl.submit("--type", "async-sleeps", queue=queue)
    ctl.becomes(job_id, "RUNNING")
    ctl.ok("queue", "delete", queue, "--force")
    job = ctl.json("job", "status", job_id)
    assert (job["status"], job["reason"]) == ("DEAD_LETTERED", "CANCELLED")


def test_the_default_queue_cannot_be_deleted(ctl: Ctl) -> None:
    assert ctl("queue", "delete", "default", "--force").code == 4


def test_jobs_that_nobody_can_run_are_counted(
    ctl: Ctl, queue: str, start_worker: StartWorker
) -> None:
    start_worker("--queues", queue, "--worker-id", "clueless")
    ctl.submit("--type", "unheard-of", queue=queue)

    def look() -> bool:
        waiting = ctl.json("status")["unhandled"]
        return {"queue": queue, "type": "unheard-of", "count": 1} in waiting

    eventually_sync(look, within_s=40, what="the count of jobs without a handler")
    # Every few seconds it is tried again, and is not among those that wait.
    eventually_sync(lambda: "unheard-of" in ctl.ok("status"), what="a table that has it too")
