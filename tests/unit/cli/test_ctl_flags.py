"""Flags: what is accepted, where, and how a mistake is told (exit code 2, one line)."""

from collections.abc import Iterator
from typing import Any

import click
import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest

from jobqueue.cli.ctl.app import cli
from jobqueue.v1 import admin_service_pb2 as admin
from jobqueue.v1 import job_service_pb2 as jobs
from tests.support.fake_service import JOB_ID, Failure, FakeService, info
from tests.unit.cli.conftest import Ctl


def commands(command: click.Command = cli, path: str = "jq-ctl") -> Iterator[tuple[str, Any]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from commands(below, f"{path} {name}")


COMMANDS = list(commands())


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_shows_examples_of_itself(path: str, command: Any) -> None:
    assert command.examples
    assert all(path.split(maxsplit=1)[0] in example for example in command.examples)


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_flag_is_described(path: str, command: click.Command, ctl: Ctl) -> None:
    ended = ctl(*path.split()[1:], "--help")
    assert (ended.code, ended.err) == (0, "")
    assert "Examples:" in ended.out
    assert all(o.help for o in command.params if isinstance(o, click.Option))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["job", "statu", JOB_ID], "No such command 'statu'"),
        (["job", "list", "--colour", "red"], "--colour"),
        (["job", "status"], "JOB_ID"),
        (["job", "status", "nope"], "job_id: is not a UUID"),
        (["job", "status", "\udcff"], "job_id: is not a UUID"),
        (["job", "list", "--page-token", "\udcff"], "page_token: is not a page token"),
        (["job", "list", "--queue", "\udcff"], "queue: may hold only"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--tenant", "\udcff"], "job.tenant"),
        (["job", "submit", "--queue", "q"], "'--payload'"),
        (["job", "submit", "--payload", "x"], "'--queue'"),
        (["job", "submit", "--payload", "x", "--from-file", "-"], "cannot be given together"),
        (["job", "submit", "--queue", "q", "--payload", "@/no/such"], "cannot read /no/such"),
        (["job", "submit", "--from-file", "/no/such"], "cannot read /no/such"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--ttl", "5m"], "number of seconds"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--ttl", "0"], "more than 0"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--delay", "-1"], "0 or more"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--delay", "nan"], "0 or more"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--priority", "10"], "0 to 9"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--max-retries", "-1"], "max_retries"),
        (
            ["job", "submit", "--queue", "q", "--payload", "x", "--max-retries", "9" * 310],
            "max_retries",
        ),
        (["job", "submit", "--queue", "a b", "--payload", "x"], "job.queue"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--not-before", "+5m"], "delay"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--not-before", "2030-01-31T18:00"],
         "time zone"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--label", "x"], "KEY=VALUE"),
        (["job", "submit", "--queue", "q", "--payload", "x", "--wait-timeout", "1"], "--wait"),
        (["job", "list", "--status", "LOST"], "'LOST' is not one of PENDING"),
        (["job", "list", "--limit", "0"], "--limit"),
        (["queue", "update", "emails"], "Nothing to change"),
        (["queue", "create", "emails", "--priority-weights", "9=x"], "PRIORITY=SHARE"),
        (["queue", "create", "emails", "--priority-weights", "9=1,9=2"], "named twice"),
        (["queue", "create", "emails", "--priority-weights", "9=0"], "priority_weights[9]"),
        (["queue", "stats", "--window", "9999999"], "window"),
        (["worker", "list", "--timeout", "0"], "more than 0"),
        (["worker", "list", "--timeout", "1e308"], "at most 315360000 seconds"),
        (["worker", "list", "--server-addr", "\udcff:1"], "HOST:PORT"),
        (["worker", "list", "--server-addr", "unix:\udcff"], "HOST:PORT"),
        (["worker", "list", "--server-addr", "x" * 100_000], "HOST:PORT"),
        (["worker", "list", "--tls-ca", "/dev/zero"], "tls.ca: is larger than"),
        (["worker", "list", "--api-key", "k" * 8_001], "api_key: must be at most 8000"),
        (["worker", "list", "--output", "xml"], "--output"),
        (["worker", "list", "--tls-cert", "x"], "given together"),
        (["worker", "list", "--api-key", "a b"], "api_key"),
        (["completion", "tcsh"], "'bash', 'zsh', 'fish'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_one_line(
    arguments: list[str], told: str, ctl: Ctl, service: FakeService
) -> None:
    ended = ctl(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 600
    assert told in ended.err
    assert not service.asked


def test_several_bad_fields_are_all_named(ctl: Ctl) -> None:
    ended = ctl("job", "submit", "--queue", "", "--payload", "x", "--max-retries", "9999")
    assert ended.code == 2
    assert ended.err.splitlines()[0] == "error: 2 bad fields"
    assert "job.queue" in ended.err
    assert "job.max_retries" in ended.err


def test_more_bad_fields_than_are_named_are_not_counted(ctl: Ctl, service: FakeService) -> None:
    bad = BadRequest()
    for field in ("job.queue", "job.type", ""):
        bad.field_violations.add(field=field, description="and 9 more")
    failure = Failure(grpc.StatusCode.INVALID_ARGUMENT, "bad", info("INVALID_ARGUMENT"), bad)
    service.answer("SubmitJob", failure)
    told = ctl("job", "submit", "--queue", "q", "--payload", "x").err.splitlines()
    assert (told[0], told[-1]) == ("error: more than 2 bad fields", "  and 9 more")


@pytest.mark.parametrize("arguments", [(), ("job",), ("queue",), ("worker",)])
def test_nothing_asked_shows_the_help_on_stderr(arguments: tuple[str, ...], ctl: Ctl) -> None:
    ended = ctl(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Usage:" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--output", "json", "worker", "list"),
        ("worker", "--output", "json", "list"),
        ("worker", "list", "--output", "JSON"),
        ("--output", "yaml", "worker", "list", "--output", "json"),
    ],
)
def test_global_flags_work_at_any_place(
    arguments: tuple[str, ...], ctl: Ctl, service: FakeService
) -> None:
    service.answer("ListWorkers", admin.ListWorkersResponse())
    assert ctl(*arguments).out.split() == ["{", '"workers":', "[", "]", "}"]


def test_a_flag_wins_over_the_environment(ctl: Ctl, service: FakeService) -> None:
    service.answer("ListWorkers", admin.ListWorkersResponse())
    assert ctl("worker", "list", "--server-addr", "127.0.0.1:1", "--timeout", "0.5").code == 5
    assert ctl("--server-addr", service.address, "worker", "list").code == 0


def test_the_api_key_comes_from_the_environment_or_the_flag(
    ctl: Ctl, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answer("ListWorkers", admin.ListWorkersResponse())
    monkeypatch.setenv("JQ_API_KEY", "from-environment")
    assert ctl("worker", "list").code == 0
    assert service.metadata["authorization"] == "Bearer from-environment"
    assert ctl("worker", "list", "--api-key", "from-flag").code == 0
    assert service.metadata["authorization"] == "Bearer from-flag"


CODES = {
    "ABORTED": 4,
    "ALREADY_EXISTS": 4,
    "DEADLINE_EXCEEDED": 5,
    "FAILED_PRECONDITION": 4,
    "INTERNAL": 1,
    "INVALID_ARGUMENT": 2,
    "NOT_FOUND": 3,
    "PERMISSION_DENIED": 6,
    "RESOURCE_EXHAUSTED": 1,
    "UNAUTHENTICATED": 6,
    "UNAVAILABLE": 5,
    "UNKNOWN": 1,
}


@pytest.mark.parametrize(("code", "expected"), CODES.items())
@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_every_failure_has_its_exit_code_and_leaves_stdout_empty(
    code: str, expected: int, output: str, ctl: Ctl, service: FakeService
) -> None:
    failure = Failure(grpc.StatusCode[code], "what happened", info("REASON"))
    service.answer("CancelJob", failure)
    ended = ctl("job", "cancel", JOB_ID, "--output", output)
    assert (ended.code, ended.out) == (expected, "")
    assert ended.err.startswith("error: ")
    assert "what happened" in ended.err


def test_a_fault_of_the_program_shows_no_traceback(
    ctl: Ctl, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_job: object) -> object:
        raise ZeroDivisionError("oops")

    service.answer("GetJob", jobs.GetJobResponse())
    monkeypatch.setattr("jobqueue.client.messages.job", broken)
    ended = ctl("job", "status", JOB_ID)
    assert (ended.code, ended.err) == (1, "error: unexpected ZeroDivisionError: oops\n")


def test_none_clears_a_setting_of_a_queue(ctl: Ctl, service: FakeService) -> None:
    service.answer("UpdateQueue", admin.UpdateQueueResponse())
    assert ctl("queue", "update", "emails", "--ttl", "none", "--max-running", "None").code == 0
    asked = service.asked["UpdateQueue"][0]
    assert list(asked.update_mask.paths) == ["max_running", "ttl"]
    assert not asked.policy.HasField("ttl")


def test_none_gives_retries_and_delays_of_a_queue_their_defaults(
    ctl: Ctl, service: FakeService
) -> None:
    service.answer("UpdateQueue", admin.UpdateQueueResponse())
    flags = ("--max-retries", "none", "--base-delay", "none", "--max-delay", "none")
    assert ctl("queue", "update", "emails", *flags).code == 0
    asked = service.asked["UpdateQueue"][0]
    assert list(asked.update_mask.paths) == ["base_delay", "max_delay", "max_retries"]
    assert not any(asked.policy.HasField(name) for name in asked.update_mask.paths)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(shell: str, ctl: Ctl) -> None:
    ended = ctl("completion", shell)
    assert ended.code == 0
    assert f"_JQ_CTL_COMPLETE={shell}_complete" in ended.out
