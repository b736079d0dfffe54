"""`jq-ctl job submit`: what arrives, what is printed, what a wait ends with (R-8.1, R-8.3)."""

import base64
import json
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.e2e.conftest import Ctl
from tests.support.programs import ctl_command, environment

EVERY_BYTE = bytes(range(256))
SUBMIT = ("job", "submit", "--queue", "default")


def payload(ctl: Ctl, job_id: str) -> bytes:
    """Return the payload that the server has, whichever way it is shown."""
    job = ctl.json("job", "status", job_id)
    text = job["payload"]
    return base64.b64decode(text) if job.get("payload_encoding") == "base64" else text.encode()


def test_only_the_id_is_printed(ctl: Ctl, queue: str) -> None:
    out = ctl.ok("job", "submit", "--queue", queue, "--payload", "x")
    assert out == f"{uuid.UUID(out.strip())}\n"
    assert uuid.UUID(out.strip()).version == 4


def test_a_payload_arrives_byte_for_byte(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(EVERY_BYTE)
    by_file = ctl.submit(queue=queue, payload=f"@{file}")
    by_pipe = ctl.ok("job", "submit", "--queue", queue, "--payload", "-", stdin=EVERY_BYTE)
    by_flag = ctl.submit(queue=queue, payload='{"ä":  "tab\t",}\n')
    assert payload(ctl, by_file) == EVERY_BYTE
    assert payload(ctl, by_pipe.strip()) == EVERY_BYTE
    assert payload(ctl, by_flag) == '{"ä":  "tab\t",}\n'.encode()
    assert payload(ctl, ctl.submit(queue=queue, payload="")) == b""


def test_an_argument_that_is_no_text_arrives_byte_for_byte(ctl: Ctl, queue: str) -> None:
    command = [part.encode() for part in ctl_command("job", "submit", "--queue", queue)]
    ended = subprocess.run(
        [*command, b"--payload", b"\xff\xfe"],
        env=environment(server_addr=ctl.address),
        capture_output=True,
        check=True,
    )
    assert payload(ctl, ended.stdout.decode().strip()) == b"\xff\xfe"


def test_a_handler_gets_the_payload_and_its_result_is_stored(ctl: Ctl, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(EVERY_BYTE)
    job_id = ctl.submit("--type", "echo", "--wait", payload=f"@{file}")
    job = ctl.json("job", "status", job_id)
    assert (job["status"], job["result_encoding"]) == ("DONE", "base64")
    assert base64.b64decode(job["result"]) == EVERY_BYTE


def test_what_is_said_is_stored(ctl: Ctl, queue: str) -> None:
    flags = ("--type", "t", "--priority", "critical", "--max-retries", "0", "--ttl", "90.5")
    more = ("--run-timeout", "2.5", "--tenant", "acme", "--label", "a=b=c", "--label", "d=")
    job = ctl.json("job", "status", ctl.submit(*flags, *more, queue=queue))
    assert (job["type"], job["priority"], job["max_retries"]) == ("t", 9, 0)
    assert (job["ttl"], job["run_timeout"], job["tenant"]) == (90.5, 2.5, "acme")
    assert job["labels"] == {"a": "b=c", "d": ""}


def test_a_delayed_job_waits_for_its_time(ctl: Ctl) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for flags in (("--delay", "3600"), ("--not-before", later)):
        job = ctl.json("job", "status", ctl.submit("--type", "echo", *flags))
        assert job["status"] == "PENDING"
        left = datetime.fromisoformat(job["not_before"]) - datetime.now(UTC)
        assert timedelta(minutes=55) < left <= timedelta(hours=1)
    soon = ctl.submit("--type", "echo", "--delay", "0.2", "--wait")
    job = ctl.json("job", "status", soon)
    assert job["started_at"] >= job["not_before"]


def test_the_same_key_gives_the_same_job_and_other_content_is_refused(ctl: Ctl, queue: str) -> None:
    key = ("--idempotency-key", str(uuid.uuid4()))
    first = ctl.submit(*key, queue=queue, payload="one")
    assert ctl.submit(*key, queue=queue, payload="one") == first
    other = ctl("job", "submit", "--queue", queue, "--payload", "two", *key)
    assert (other.code, other.out) == (4, "")
    ended = ctl.json("job", "submit", "--queue", queue, "--payload", "one", *key)
    assert ended == {"job_id": first, "existing": True}


def test_a_file_gives_one_id_a_line_in_its_order(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    lines = [{"payload": f"job {i}", "priority": "high" if i % 2 else 0} for i in range(30)]
    file = tmp_path / "jobs.jsonl"
    file.write_text("\n\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    ids = ctl.ok("job", "submit", "--queue", queue, "--from-file", str(file)).split()
    assert len(set(ids)) == 30
    jobs = [ctl.json("job", "status", job_id) for job_id in (ids[0], ids[7])]
    assert [job["payload"] for job in jobs] == ["job 0", "job 7"]
    assert [job["priority"] for job in jobs] == [0, 7]


def test_a_bad_line_is_named_and_nothing_is_stored(ctl: Ctl, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text('{"payload": "good"}\n{"payload": "good", "colour": 1}\n', encoding="utf-8")
    ended = ctl("job", "submit", "--queue", queue, "--from-file", str(file))
    assert (ended.code, ended.out) == (2, "")
    assert "line 2" in ended.err
    assert "colour" in ended.err
    assert ctl.json("job", "list", "--queue", queue)["jobs"] == []


def test_a_batch_refused_by_the_server_names_its_line_and_stores_nothing(
    ctl: Ctl, queue: str
) -> None:
    lines = b'{"payload": "good"}\n\n{"payload": "bad", "queue": "no-such-queue"}\n'
    ended = ctl("job", "submit", "--queue", queue, "--from-file", "-", stdin=lines)
    assert (ended.code, ended.out) == (3, "")
    assert "line 3" in ended.err
    assert ctl.json("job", "list", "--queue", queue)["jobs"] == []


def test_what_was_stored_before_a_bad_line_of_a_pipe_is_told(ctl: Ctl, queue: str) -> None:
    lines = b'{"payload": ""}\n' * 10_001 + b"nonsense\n"
    ended = ctl("job", "submit", "--queue", queue, "--from-file", "-", stdin=lines)
    assert (ended.code, len(set(ended.out.split()))) == (7, 10_000)
    assert "10000 jobs are stored" in ended.err
    assert "line 10002" in ended.err
    (stats,) = ctl.json("queue", "stats", queue)["stats"]
    assert {"status": "PENDING", "count": 10_000} in stats["depth"]


def test_an_unknown_queue_is_not_found(ctl: Ctl) -> None:
    ended = ctl("job", "submit", "--queue", "no-such-queue", "--payload", "x")
    assert (ended.code, ended.out) == (3, "")
    assert "no-such-queue" in ended.err


def test_a_wait_ends_with_0_when_the_job_is_done(ctl: Ctl) -> None:
    job_id = ctl.submit("--type", "echo", "--wait")
    assert ctl.json("job", "status", job_id)["status"] == "DONE"


def test_a_wait_ends_with_8_when_the_job_is_dead_lettered(ctl: Ctl) -> None:
    failing = ("--type", "raises", "--payload", "value", "--max-retries", "0")
    ended = ctl(*SUBMIT, *failing, "--wait")
    assert ended.code == 8
    assert ctl.json("job", "status", ended.out.strip())["reason"] == "RETRIES_EXHAUSTED"
    assert "bad value" in ended.err


def test_a_wait_ends_with_9_when_it_takes_too_long(ctl: Ctl, queue: str) -> None:
    flags = ("--queue", queue, "--payload", "", "--wait", "--wait-timeout", "0.3")
    ended = ctl("job", "submit", *flags)
    assert ended.code == 9
    assert ctl.json("job", "status", ended.out.strip())["status"] == "PENDING"


def test_a_wait_is_not_cut_by_the_timeout_of_calls(ctl: Ctl) -> None:
    slow = ("--type", "shell", "--payload", '{"command": "sleep 7; echo slow"}')
    ended = ctl(*SUBMIT, *slow, "--wait", "--timeout", "6")
    assert (ended.code, ended.err) == (0, "")
