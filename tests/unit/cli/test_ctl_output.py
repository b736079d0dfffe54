"""What is printed: tables, JSON, YAML (R-8.1, R-8.2)."""

import json

import grpc
import pytest
import yaml

from jobqueue.cli.ctl import job as job_commands
from jobqueue.cli.ctl import views
from jobqueue.cli.ctl.text import cell, rough, visible
from jobqueue.client import admin_messages, messages
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, Failure, FakeService, job
from tests.unit.cli.conftest import Ctl


def field_names(message: object) -> set[str]:
    return {field.name for field in message.DESCRIPTOR.fields}  # type: ignore[attr-defined]


def test_documents_have_the_fields_of_the_protos() -> None:
    event = job_pb2.JobEvent(job_id=JOB_ID, to_status="JOB_STATUS_PENDING", reason="SUBMITTED")
    worker = admin.Worker(status="STATUS_ACTIVE")
    system = admin.GetSystemStatusResponse(unhandled=[admin.UnhandledType()])
    assert views.job(messages.job(job())).keys() == field_names(job())
    assert views.event(messages.event(event)).keys() == field_names(event)
    assert views.queue(admin_messages.queue(admin.Queue())).keys() == field_names(admin.Queue())
    assert views.stats(admin_messages.stats(admin.QueueStats())).keys() == field_names(
        admin.QueueStats()
    )
    assert views.worker(admin_messages.worker(worker)).keys() == field_names(worker)
    assert views.system(admin_messages.system_status(system)).keys() == field_names(system)


def test_json_shows_words_utc_times_numbers_and_text(ctl: Ctl, service: FakeService) -> None:
    sent = job("DONE", payload="grüße".encode(), result=b"\xff\x00", max_retries=3)
    sent.ttl.FromMilliseconds(1500)
    service.answer("GetJob", jobs.GetJobResponse(job=sent))
    shown = json.loads(ctl("job", "status", JOB_ID, "--output", "json").out)
    assert (shown["status"], shown["created_at"]) == ("DONE", "2026-01-31T18:00:00.123456Z")
    assert (shown["payload"], shown["ttl"], shown["max_retries"]) == ("grüße", 1.5, 3)
    assert (shown["result"], shown["result_encoding"]) == ("/wA=", "base64")
    assert "payload_encoding" not in shown
    assert shown["last_error"] is None


def test_yaml_says_the_same_as_json(ctl: Ctl, service: FakeService) -> None:
    service.answer("GetJob", jobs.GetJobResponse(job=job("FAILED", payload=b"a: b\n- c\t\x07")))
    as_json = ctl("job", "status", JOB_ID, "--output", "json").out
    as_yaml = ctl("job", "status", JOB_ID, "--output", "yaml").out
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_a_status_shows_all_of_a_job_on_lines_of_their_own(ctl: Ctl, service: FakeService) -> None:
    sent = job("FAILED", payload=b"two\nlines", last_error="\x1b[2Jboom", labels={"a": "b"})
    service.answer("GetJob", jobs.GetJobResponse(job=sent))
    lines = dict(
        line.replace(" ", "").split(":\t", 1)
        for line in ctl("job", "status", JOB_ID).out.replace(":  ", ":").splitlines()
        if ":\t" in line.replace(" ", "")
    )
    assert lines["id"] == JOB_ID
    assert lines["payload"] == "two\\nlines"
    assert lines["lasterror"] == "\\u001b[2Jboom"
    assert (lines["completed"], lines["retrycount"], lines["labels"]) == ("-", "0of0", "a=b")


def test_a_list_shows_the_way_to_the_next_page_on_stderr(ctl: Ctl, service: FakeService) -> None:
    page = jobs.ListJobsResponse(jobs=[job()] * 2, next_page_token="more")
    service.answer("ListJobs", page)
    ended = ctl("job", "list", "--limit", "2", "--status", "failed,Dead-Lettered", "--queue", "q")
    assert ended.out.splitlines()[0].split() == [
        *("JOB", "ID", "QUEUE", "TYPE", "STATUS", "REASON", "PRIORITY", "ATTEMPT", "CREATED")
    ]
    assert len(ended.out.splitlines()) == 3
    assert ended.err == "more: --page-token more\n"
    asked = service.asked["ListJobs"][0]
    assert (asked.page_size, asked.queue, len(asked.statuses)) == (2, "q", 2)


def test_a_list_of_some_shows_what_was_found_in_time_and_one_of_all_goes_on(
    ctl: Ctl, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_commands, "_PATIENCE_S", -1.0)
    few = jobs.ListJobsResponse(jobs=[job()], next_page_token="more")
    last = jobs.ListJobsResponse(jobs=[job()])
    service.answer("ListJobs", few, last)
    ended = ctl("job", "list", "--limit", "9")
    assert (len(ended.out.splitlines()), ended.err) == (2, "more: --page-token more\n")
    service.answer("ListJobs", few, last)
    ended = ctl("job", "list", "--all")
    assert (len(ended.out.splitlines()), ended.err) == (3, "")


def test_a_list_of_some_goes_on_over_pages_without_any(ctl: Ctl, service: FakeService) -> None:
    none = jobs.ListJobsResponse(next_page_token="more")
    service.answer("ListJobs", none, none, jobs.ListJobsResponse(jobs=[job()]))
    ended = ctl("job", "list", "--limit", "9")
    assert (len(ended.out.splitlines()), ended.err) == (2, "")


def test_columns_are_aligned_and_end_with_tabs(ctl: Ctl, service: FakeService) -> None:
    listed = [job(queue="q", type="t"), job(queue="longer")]
    service.answer("ListJobs", jobs.ListJobsResponse(jobs=listed))
    lines = ctl("job", "list").out.splitlines()
    assert len({line.index("\t", line.index("\t") + 1) for line in lines}) == 1
    assert [entry.strip() for entry in lines[2].split("\t")][1:4] == ["longer", "-", "PENDING"]


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_list_of_all_is_one_document(
    output: str, load: object, ctl: Ctl, service: FakeService
) -> None:
    first = jobs.ListJobsResponse(jobs=[job()] * 2, next_page_token="more")
    service.answer("ListJobs", first, jobs.ListJobsResponse(jobs=[job()]))
    shown = load(ctl("job", "list", "--all", "--output", output).out)  # type: ignore[operator]
    assert [each["job_id"] for each in shown["jobs"]] == [JOB_ID] * 3
    assert shown["next_page_token"] == ""
    assert "payload" not in shown["jobs"][0]


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_an_empty_list_is_a_document_too(
    output: str, load: object, ctl: Ctl, service: FakeService
) -> None:
    service.answer("ListQueues", admin.ListQueuesResponse())
    shown = load(ctl("queue", "list", "--output", output).out)  # type: ignore[operator]
    assert shown == {"queues": []}


def test_logs_show_every_move(ctl: Ctl, service: FakeService) -> None:
    events = [
        job_pb2.JobEvent(job_id=JOB_ID, sequence=1, to_status="JOB_STATUS_PENDING",
                         reason="SUBMITTED"),
        job_pb2.JobEvent(job_id=JOB_ID, sequence=2, from_status="JOB_STATUS_PENDING",
                         to_status="JOB_STATUS_ASSIGNED", reason="CLAIMED", worker_id="w1"),
    ]  # fmt: skip
    service.answer("ListJobEvents", jobs.ListJobEventsResponse(events=events))
    lines = ctl("job", "logs", JOB_ID).out.splitlines()
    assert lines[1].split()[2:] == ["-", "PENDING", "SUBMITTED", "0", "-", "-"]
    assert lines[2].split()[2:6] == ["PENDING", "ASSIGNED", "CLAIMED", "0"]
    shown = json.loads(ctl("job", "logs", JOB_ID, "--output", "json").out)
    assert [each["from_status"] for each in shown["events"]] == [None, "PENDING"]
    assert shown["events"][0]["type"] == "job.submitted"


def test_logs_show_a_page_before_the_next_one_is_read(ctl: Ctl, service: FakeService) -> None:
    event = job_pb2.JobEvent(job_id=JOB_ID, sequence=1, to_status="JOB_STATUS_PENDING",
                             reason="SUBMITTED")  # fmt: skip
    first = jobs.ListJobEventsResponse(events=[event] * 1_000, next_page_token="1000")
    service.answer("ListJobEvents", first, Failure(grpc.StatusCode.UNAVAILABLE, "gone"))
    ended = ctl("job", "logs", JOB_ID)
    assert (ended.code, len(ended.out.splitlines())) == (5, 1_001)
    service.answer("ListJobEvents", first, jobs.ListJobEventsResponse(events=[event]))
    shown = json.loads(ctl("job", "logs", JOB_ID, "--output", "json").out)
    assert len(shown["events"]) == 1_001


def test_a_cancel_prints_one_word(ctl: Ctl, service: FakeService) -> None:
    service.answer("CancelJob", jobs.CancelJobResponse(outcome="OUTCOME_CANCELLED"))
    assert ctl("job", "cancel", JOB_ID).out == "CANCELLED\n"
    assert json.loads(ctl("job", "cancel", JOB_ID, "--output", "json").out) == {
        "outcome": "CANCELLED"
    }


def test_a_watch_prints_changes_and_ends_with_the_fate(ctl: Ctl, service: FakeService) -> None:
    service.answer("GetJob", jobs.GetJobResponse(job=job("RUNNING")))
    dead = jobs.WatchJobResponse(job=job("DEAD_LETTERED", reason="REFUSED", last_error="no\nway"))
    service.answer("WatchJob", [dead])
    ended = ctl("job", "watch", JOB_ID)
    assert [line.split()[1] for line in ended.out.splitlines()] == ["RUNNING", "DEAD_LETTERED"]
    assert ended.code == 8
    assert ended.err == f"error: job {JOB_ID} ended DEAD_LETTERED (REFUSED): no\n"
    entries = ctl("job", "watch", JOB_ID, "--output", "json").out.splitlines()
    assert [json.loads(entry)["status"] for entry in entries] == ["RUNNING", "DEAD_LETTERED"]


def test_the_status_shows_every_part(ctl: Ctl, service: FakeService) -> None:
    answer = admin.GetSystemStatusResponse(
        version="0.1.0 (abc)",
        components=[admin.ComponentStatus(name="postgresql", state="ok", detail="18.1")],
        queues=[admin.QueueStats(queue="emails", done_total=7)],
        workers=[admin.Worker(worker_id="w1", status="STATUS_DRAINING")],
        unhandled=[admin.UnhandledType(queue="emails", type="strange", count=3)],
    )
    service.answer("GetSystemStatus", answer)
    shown = ctl("status").out
    for word in ("0.1.0 (abc)", "postgresql", "emails", "w1", "DRAINING", "strange"):
        assert word in shown
    as_json = json.loads(ctl("status", "--output", "json").out)
    assert as_json["unhandled"] == [{"queue": "emails", "type": "strange", "count": 3}]
    assert as_json["queues"][0]["done_total"] == 7


def test_a_forced_delete_has_no_deadline(ctl: Ctl, service: FakeService) -> None:
    service.answer("DeleteQueue", admin.DeleteQueueResponse(cancelled_count=2))
    assert ctl("queue", "delete", "emails", "--force").out == "DELETED (2 jobs cancelled)\n"


def test_the_version_is_told_without_and_with_a_server(ctl: Ctl, service: FakeService) -> None:
    assert ctl("--version").out.startswith("0.1.0 (")
    assert not service.asked
    service.answer("GetVersion", admin.GetVersionResponse(version="9.9.9", commit="abc"))
    assert "jq-server  9.9.9 (abc)" in ctl("version").out
    shown = json.loads(ctl("version", "--output", "json").out)
    assert (shown["version"], shown["commit"]) == ("9.9.9", "abc")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        (b"", "-"),
        ((), "-"),
        ({}, "-"),
        (0, "0"),
        (True, "yes"),
        (2.5, "2.5"),
        (300.0, "300"),
        (("a", "b"), "a,b"),
        (b"\xff", "(1 bytes that are not text; --output json shows them)"),
        ("tab\tand \u202e override", "tab\\tand \\u202e override"),
    ],
)
def test_a_cell_is_one_harmless_line(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_long_text_is_cut_in_tables_only() -> None:
    assert visible("x" * 5_000).endswith("… (5000 characters)")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0.0854, "85 ms"), (2.44, "2.4 s"), (185, "3 min"), (11_100, "3 h 05 min")],
)
def test_measured_durations_are_rough(seconds: float | None, shown: str) -> None:
    assert rough(seconds) == shown
