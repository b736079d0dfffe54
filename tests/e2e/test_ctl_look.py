"""`jq-ctl job status`, `logs`, `list`, `watch`: what is shown, and how (R-8.1, R-8.2)."""

import subprocess
from datetime import datetime
from pathlib import Path

from tests.e2e.conftest import PATIENT, Ctl, StartWorker
from tests.support.programs import ctl_command, environment
from tests.support.shells import in_bash


def test_status_shows_every_field_of_a_job(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "echo", "--wait", payload="hello")
    shown = dict(line.split(":", 1) for line in ctl.ok("job", "status", job_id).splitlines())
    fields = {name: value.strip() for name, value in shown.items()}
    assert (fields["id"], fields["queue"], fields["type"]) == (job_id, "default", "echo")
    assert (fields["status"], fields["reason"], fields["priority"]) == ("DONE", "COMPLETED", "0")
    assert (fields["payload"], fields["result"], fields["last error"]) == ("hello", "hello", "-")
    assert (fields["attempt"], fields["retry count"]) == ("1", "0 of 3")
    assert (fields["worker"], fields["not before"]) == ("e2e", "-")
    times = [datetime.fromisoformat(fields[name]) for name in ("created", "started", "completed")]
    assert times == sorted(times)


def test_status_shows_why_an_attempt_failed(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "raises", queue=PATIENT, payload="value")
    job = ctl.becomes(job_id, "FAILED")
    assert (job["reason"], job["retry_count"], job["attempt"]) == ("HANDLER_FAILED", 1, 1)
    assert "bad value" in job["last_error"]
    assert job["not_before"] > job["created_at"]


def test_logs_show_the_transitions_in_order(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "echo", "--wait")
    heading, *rows = ctl.ok("job", "logs", job_id).splitlines()
    assert [name.strip() for name in heading.split("\t")][:5] == [
        *("SEQ", "TIME", "FROM", "TO", "REASON"),
    ]
    moves = [[entry.strip() for entry in row.split("\t")] for row in rows]
    assert [(seq, before, after, why) for seq, _, before, after, why, *_ in moves] == [
        ("1", "-", "PENDING", "SUBMITTED"),
        ("2", "PENDING", "ASSIGNED", "CLAIMED"),
        ("3", "ASSIGNED", "RUNNING", "STARTED"),
        ("4", "RUNNING", "DONE", "COMPLETED"),
    ]
    assert [worker for *_, worker, _ in moves] == ["-", "e2e", "e2e", "e2e"]


def test_json_and_yaml_say_the_same(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "echo", "--wait", payload="grüße\n")
    for command in (("job", "status", job_id), ("job", "logs", job_id), ("queue", "list")):
        assert ctl.yaml(*command) == ctl.json(*command)
    events = ctl.json("job", "logs", job_id)["events"]
    assert [event["sequence"] for event in events] == [1, 2, 3, 4]
    assert {event["job_id"] for event in events} == {job_id}
    assert all(event["timestamp"].endswith("Z") for event in events)


def test_lists_are_filtered_by_queue_type_and_status_in_any_case(ctl: Ctl, queue: str) -> None:
    a, b = ctl.submit("--type", "a", queue=queue), ctl.submit("--type", "b", queue=queue)
    ctl.ok("job", "cancel", b)

    def listed(*flags: str) -> list[str]:
        jobs = ctl.json("job", "list", "--queue", queue, *flags)["jobs"]
        return [job["job_id"] for job in jobs]

    assert listed() == [b, a]
    assert listed("--type", "a") == [a]
    assert listed("--status", "Dead_Lettered") == [b]
    assert listed("--status", "pending,dead-lettered") == [b, a]
    assert listed("--status", "DONE") == []
    assert ctl("job", "list", "--status", "asleep").code == 2


def test_pages_neither_skip_nor_repeat(ctl: Ctl, queue: str) -> None:
    lines = b'{"payload": ""}\n' * 25
    ids = ctl.ok("job", "submit", "--queue", queue, "--from-file", "-", stdin=lines).split()
    seen: list[str] = []
    token: list[str] = []
    while len(seen) < 25:
        page = ctl.json("job", "list", "--queue", queue, "--limit", "10", *token)
        seen += [job["job_id"] for job in page["jobs"]]
        token = ["--page-token", page["next_page_token"]]
    assert seen == ids[::-1]
    assert token == ["--page-token", ""]
    everything = ctl.json("job", "list", "--queue", queue, "--all")["jobs"]
    assert [job["job_id"] for job in everything] == seen
    table = ctl("job", "list", "--queue", queue, "--limit", "10")
    assert len(table.out.splitlines()) == 11
    assert table.err.startswith("more: --page-token ")


def test_a_watch_shows_each_change_to_the_end(
    ctl: Ctl, queue: str, start_worker: StartWorker, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    command = f'{{"command": "while [ ! -e {go} ]; do sleep 0.05; done"}}'
    job_id = ctl.submit("--type", "shell", queue=queue, payload=command)
    with subprocess.Popen(
        ctl_command("job", "watch", job_id),
        env=environment(server_addr=ctl.address),
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        assert "PENDING" in watching.stdout.readline()
        start_worker("--queues", queue, "--worker-id", "watched")
        assert "RUNNING" in watching.stdout.readline()
        go.touch()
        rest, _ = watching.communicate(timeout=40)
    assert watching.returncode == 0
    assert [line.split("\t")[1].strip() for line in rest.splitlines()] == ["DONE"]


def test_a_watch_of_a_job_that_dies_ends_with_8(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "raises", "--max-retries", "0", payload="fail")
    ended = ctl("job", "watch", job_id)
    assert (ended.code, ended.out.splitlines()[-1].split()[1]) == (8, "DEAD_LETTERED")


def test_a_closed_pipe_ends_silently(ctl: Ctl, queue: str) -> None:
    lines = b'{"payload": ""}\n' * 2_000
    ctl.ok("job", "submit", "--queue", queue, "--from-file", "-", stdin=lines)
    command = " ".join(ctl_command("job", "list", "--queue", queue, "--all"))
    for output in ("table", "json", "yaml"):
        script = f"{command} --output {output} | head -1; echo ${{PIPESTATUS[0]}}"
        ended = in_bash(script, environment(server_addr=ctl.address))
        assert ended.stderr == ""
        assert ended.stdout.splitlines()[-1] == "0"
