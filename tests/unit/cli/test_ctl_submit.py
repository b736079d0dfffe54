"""``job submit``: payloads byte for byte, files of lines, waits."""

import io
import json
import os
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest

from jobqueue.client.messages import spec_message
from jobqueue.domain.job import JobSpec
from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, Failure, FakeService, info, job
from tests.unit.cli.conftest import Ctl


@pytest.fixture(autouse=True)
def accepting(service: FakeService) -> None:
    service.answer("SubmitJob", jobs.SubmitJobResponse(job_id=JOB_ID))
    service.answer(
        "SubmitJobs", lambda asked: jobs.SubmitJobsResponse(job_ids=[JOB_ID] * len(asked.jobs))
    )


def lines(folder: Path, *entries: object) -> str:
    file = folder / "jobs.jsonl"
    texts = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    file.write_text("\n".join(texts), encoding="utf-8")
    return str(file)


def test_only_the_id_is_printed(ctl: Ctl) -> None:
    ended = ctl("job", "submit", "--queue", "q", "--payload", "x")
    assert (ended.code, ended.out, ended.err) == (0, f"{JOB_ID}\n", "")
    as_json = ctl("job", "submit", "--queue", "q", "--payload", "x", "--output", "json")
    assert json.loads(as_json.out) == {"job_id": JOB_ID, "existing": False}


@pytest.mark.parametrize("payload", [b"", b"two\r\nlines\n", b"\x00\xff\xfe", " ü ".encode()])
def test_a_payload_is_sent_byte_for_byte(
    payload: bytes,
    ctl: Ctl,
    service: FakeService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(payload)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(payload)))
    assert ctl("job", "submit", "--queue", "q", "--payload", f"@{file}").code == 0
    assert ctl("job", "submit", "--queue", "q", "--payload", "-").code == 0
    assert [asked.job.payload for asked in service.asked["SubmitJob"]] == [payload, payload]


def test_an_argument_that_is_no_text_is_sent_as_its_bytes(ctl: Ctl, service: FakeService) -> None:
    assert ctl("job", "submit", "--queue", "q", "--payload", os.fsdecode(b"\xff\xfe")).code == 0
    assert service.asked["SubmitJob"][0].job.payload == b"\xff\xfe"


def test_a_payload_that_is_too_large_is_refused_unsent(
    ctl: Ctl, service: FakeService, tmp_path: Path
) -> None:
    file = tmp_path / "payload"
    with file.open("wb") as sparse:
        sparse.truncate(2**40)
    ended = ctl("job", "submit", "--queue", "q", "--payload", f"@{file}")
    assert ended.code == 2
    assert "job.payload: is larger than 1048576 bytes" in ended.err
    assert not service.asked


def test_every_flag_reaches_the_server(ctl: Ctl, service: FakeService) -> None:
    flags = (
        "--queue q --payload x --type t --priority high --max-retries 2 --ttl 1.5 --delay 0.25"
        " --run-timeout 9 --idempotency-key k --tenant acme --label a=b=c --label d="
    )
    assert ctl("job", "submit", *flags.split()).code == 0
    expected = JobSpec(
        *("q", b"x", "t", 7, 2, 1.5, 0.25, None, 9.0, "k", "acme"), labels={"a": "b=c", "d": ""}
    )
    assert service.asked["SubmitJob"][0].job == spec_message(expected)


def test_a_file_gives_one_id_a_line(ctl: Ctl, service: FakeService, tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"queue": "a", "payload": "x", "priority": "critical", "labels": {"k": "v"}},
        "",
        {"payload": "/wA=", "payload_encoding": "base64", "max_retries": 0, "ttl": None},
        {"queue": "c", "not_before": "2030-01-31T18:00:00+01:00", "run_timeout": 2.5},
    )
    ended = ctl("job", "submit", "--from-file", path, "--queue", "b", "--type", "t")
    assert (ended.code, ended.out) == (0, f"{JOB_ID}\n" * 3)
    first, second, third = service.asked["SubmitJobs"][0].jobs
    assert (first.queue, first.priority, dict(first.labels)) == ("a", 9, {"k": "v"})
    assert (second.queue, second.payload, second.type) == ("b", b"\xff\x00", "t")
    assert second.HasField("max_retries")
    assert third.not_before.ToJsonString() == "2030-01-31T17:00:00Z"
    as_json = ctl("job", "submit", "--from-file", path, "--queue", "b", "--output", "json")
    assert json.loads(as_json.out) == {"job_ids": [JOB_ID] * 3}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("{", "line 2: "),
        ("[1]", "line 2: must be an object"),
        ('{"payload": "x"}', "line 2: has no queue"),
        ('{"queue": "q", "payload": 5}', "line 2: payload must be a string"),
        ('{"queue": "q", "payload": "\\ud800"}', "line 2: payload is not valid Unicode"),
        ('{"queue": "q", "payload": "?", "payload_encoding": "base64"}', "is not base64"),
        ('{"queue": "q", "colour": "red"}', "line 2: has an unknown field 'colour'"),
        ('{"queue": "q", "queue": "r"}', "line 2: has twice the field 'queue'"),
        ('{"queue": "q", "labels": {"a": "b", "a": "c"}}', "line 2: has twice the field 'a'"),
        ('{"queue": "q", "priority": 12}', "line 2.priority: must be between 0 and 9"),
        ('{"queue": "q", "priority": true}', "line 2: priority must be a whole number"),
        ('{"queue": "q", "ttl": NaN}', "line 2: NaN is not JSON"),
        ('{"queue": "q", "delay": 1e999}', "line 2.delay"),
        ('{"queue": "q", "delay": -1' + "0" * 400 + "}", "line 2.delay: must be between 0"),
        ('{"queue": "q", "ttl": 1' + "0" * 400 + "}", "line 2.ttl: must be more than 0"),
        ('{"queue": "q", "max_retries": 1' + "0" * 400 + "}", "line 2.max_retries: must be"),
        ('{"queue": "q", "labels": {"a": 1}}', "line 2: labels must be an object of strings"),
        ('{"queue": "q", "not_before": "2030-01-31T18:00:00"}', "has no time zone"),
        ('{"queue": "q", "labels": ' + "[" * 100_000, "line 2: is nested too deeply"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_stored(
    bad: str, told: str, ctl: Ctl, service: FakeService, tmp_path: Path
) -> None:
    ended = ctl("job", "submit", "--from-file", lines(tmp_path, {"queue": "q"}, bad))
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert not service.asked


def test_a_line_without_an_end_is_told(ctl: Ctl, service: FakeService) -> None:
    ended = ctl("job", "submit", "--from-file", "/dev/zero")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: line 1: is longer than 8388608 bytes\n"
    assert not service.asked


def test_a_payload_of_full_size_fits_into_a_line_however_it_is_spelled(
    ctl: Ctl, service: FakeService, tmp_path: Path
) -> None:
    line = '{"queue": "q", "payload": "' + "\\u0001" * 1024 * 1024 + '"}'
    assert ctl("job", "submit", "--from-file", lines(tmp_path, line)).code == 0
    assert service.asked["SubmitJobs"][0].jobs[0].payload == b"\x01" * 1024 * 1024


def test_what_others_have_read_of_a_file_is_not_submitted(
    ctl: Ctl, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {"queue": "q", "payload": "first"}
    with Path(lines(tmp_path, first, {"queue": "q", "payload": "second"})).open("rb") as file:
        file.seek(len(json.dumps(first)) + 1)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        assert ctl("job", "submit", "--from-file", "-").code == 0
    (asked,) = service.asked["SubmitJobs"]
    assert [job.payload for job in asked.jobs] == [b"second"]


def test_a_later_batch_without_an_answer_is_not_said_to_be_unstored(
    ctl: Ctl, service: FakeService, tmp_path: Path
) -> None:
    stored = jobs.SubmitJobsResponse(job_ids=[JOB_ID] * 10_000)
    lost = Failure(grpc.StatusCode.UNAVAILABLE, "the server went away")
    service.answer("SubmitJobs", stored, lost)
    ended = ctl("job", "submit", "--from-file", lines(tmp_path, *[{"queue": "q"}] * 10_002))
    assert ended.code == 7
    assert "10000 jobs are stored, it is not known whether the next batch is" in ended.err


def test_a_batch_that_fails_later_leaves_the_work_partly_done(
    ctl: Ctl, service: FakeService, tmp_path: Path
) -> None:
    stored = jobs.SubmitJobsResponse(job_ids=[JOB_ID] * 10_000)
    message = "jobs[1].queue: queue 'q' not found"
    failure = Failure(grpc.StatusCode.NOT_FOUND, message, info("QUEUE_NOT_FOUND"))
    service.answer("SubmitJobs", stored, failure)
    ended = ctl("job", "submit", "--from-file", lines(tmp_path, *[{"queue": "q"}] * 10_002))
    assert ended.code == 7
    assert ended.out == f"{JOB_ID}\n" * 10_000
    assert "10000 jobs are stored, the rest is not" in ended.err
    assert "line 10002.queue: queue 'q' not found" in ended.err


def test_several_bad_jobs_of_a_batch_are_named_by_their_lines(
    ctl: Ctl, service: FakeService, tmp_path: Path
) -> None:
    names = [f"jobs[{i}].payload" for i in range(2)]
    bad = BadRequest(
        field_violations=[
            BadRequest.FieldViolation(field=name, description="is too large") for name in names
        ]
    )
    failure = Failure(grpc.StatusCode.INVALID_ARGUMENT, "bad", info("INVALID_ARGUMENT"), bad)
    service.answer("SubmitJobs", failure)
    ended = ctl("job", "submit", "--from-file", lines(tmp_path, "", {"queue": "q"}, {"queue": "q"}))
    assert ended.code == 2
    assert "line 2.payload: is too large\n  line 3.payload: is too large" in ended.err


def test_a_first_batch_that_fails_has_its_own_code(
    ctl: Ctl, service: FakeService, tmp_path: Path
) -> None:
    message = "jobs[0].queue: queue 'q' not found"
    failure = Failure(grpc.StatusCode.NOT_FOUND, message, info("QUEUE_NOT_FOUND"))
    service.answer("SubmitJobs", failure)
    ended = ctl("job", "submit", "--from-file", lines(tmp_path, "", {"queue": "q"}))
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == "error: line 2.queue: queue 'q' not found\n"


@pytest.mark.parametrize(("status", "code"), [("DONE", 0), ("DEAD_LETTERED", 8)])
def test_a_wait_ends_with_the_fate_of_the_job(
    status: str, code: int, ctl: Ctl, service: FakeService
) -> None:
    service.answer("GetJob", jobs.GetJobResponse(job=job(status)))
    ended = ctl("job", "submit", "--queue", "q", "--payload", "x", "--wait")
    assert (ended.code, ended.out) == (code, f"{JOB_ID}\n")


def test_a_wait_that_takes_too_long_ends_with_nine(ctl: Ctl, service: FakeService) -> None:
    service.answer("GetJob", jobs.GetJobResponse(job=job("RUNNING")))
    flags = ("--queue", "q", "--payload", "x", "--wait", "--wait-timeout", "0.3")
    ended = ctl("job", "submit", *flags)
    assert (ended.code, ended.out) == (9, f"{JOB_ID}\n")
    assert "still RUNNING after 0.3 seconds" in ended.err
