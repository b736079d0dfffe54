"""jq-ctl top against a service that answers as told: frames, troubles, ends."""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from jobqueue.domain.state import JobStatus
from jobqueue.v1 import admin_service_pb2 as admin
from tests.support.fake_service import Failure, FakeService, info
from tests.support.shells import in_bash
from tests.support.terminal import Terminal
from tests.support.waiting import eventually_sync
from tests.unit.cli.conftest import Ctl

CTL = str(Path(sys.executable).parent / "jq-ctl")
SOON = ("--interval", "0.1")
AWAY = Failure(
    grpc.StatusCode.DEADLINE_EXCEEDED, "the database did not answer in time", info("LATE")
)


def look(after_s: int = 0, done: int = 0) -> admin.GetSystemStatusResponse:
    depth = [admin.StatusCount(status=f"JOB_STATUS_{status}", count=1) for status in JobStatus]
    queue = admin.QueueStats(queue="emails", depth=depth, done_total=done)
    queue.as_of.FromSeconds(1_800_000_000 + after_s)
    components = [admin.ComponentStatus(name="redis", state="degraded", detail="away")]
    return admin.GetSystemStatusResponse(
        version="0.1.0 (abc)", queues=[queue], components=components
    )


@pytest.fixture
def environment(service: FakeService) -> Mapping[str, str]:
    return {**os.environ, "JQ_SERVER_ADDR": service.address}


def test_frames_follow_each_other_in_a_pipe_without_escape_codes(
    ctl: Ctl, service: FakeService
) -> None:
    service.answer("GetSystemStatus", look(), look(2, done=5))
    ended = ctl("top", "--count", "2", *SOON)
    assert (ended.code, ended.err) == (0, "")
    assert "\x1b" not in ended.out
    rows = [line.split() for line in ended.out.splitlines() if line.startswith("emails")]
    columns = next(line for line in ended.out.splitlines() if line.startswith("QUEUE")).split("\t")
    rate = [column.strip() for column in columns].index("DONE/S")
    assert [row[rate] for row in rows] == ["-", "2.5"]
    assert len(service.asked["GetSystemStatus"]) == 2


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_documents_come_one_a_frame_with_rates(ctl: Ctl, service: FakeService, output: str) -> None:
    service.answer("GetSystemStatus", look(), look(4, done=2))
    text = ctl("top", "--count", "2", *SOON, "--output", output).out
    frames: list[Any] = (
        [json.loads(line) for line in text.splitlines()]
        if output == "json"
        else list(yaml.safe_load_all(text))
    )
    first, second = (frame["queues"][0] for frame in frames)
    assert (first["done_per_second"], second["done_per_second"]) == (None, 0.5)
    assert (second["entered_per_second"], second["dead_lettered_per_second"]) == (0.5, 0.0)
    assert second["queue"] == "emails"
    assert {each["status"]: each["count"] for each in second["depth"]} == dict.fromkeys(
        JobStatus, 1
    )
    assert frames[1]["components"] == [{"name": "redis", "state": "degraded", "detail": "away"}]
    assert frames[0]["timestamp"].endswith("Z")


def test_a_trouble_that_passes_is_told_once_and_sat_out(ctl: Ctl, service: FakeService) -> None:
    service.answer("GetSystemStatus", look(), AWAY, AWAY, look(4))
    ended = ctl("top", "--count", "4", *SOON, "--output", "json")
    assert (ended.code, len(ended.out.splitlines())) == (0, 2)
    assert ended.err == f"error: {AWAY.message}; trying again\n"


def test_a_trouble_at_the_last_look_is_how_it_ends(ctl: Ctl, service: FakeService) -> None:
    service.answer("GetSystemStatus", AWAY)
    ended = ctl("top", "--count", "1")
    assert (ended.code, ended.out, ended.err) == (5, "", f"error: {AWAY.message}\n")


def test_a_refusal_ends_it_at_once(ctl: Ctl, service: FakeService) -> None:
    service.answer("GetSystemStatus", Failure(grpc.StatusCode.PERMISSION_DENIED, "not for you"))
    ended = ctl("top")
    assert (ended.code, ended.out, ended.err) == (6, "", "error: not for you\n")


def test_a_queue_that_is_not_there_ends_it_with_3(ctl: Ctl, service: FakeService) -> None:
    service.answer("GetSystemStatus", look())
    ended = ctl("top", "--queue", "emails", "--queue", "nowhere")
    assert (ended.code, ended.out, ended.err) == (3, "", "error: queue 'nowhere' not found\n")


@pytest.mark.parametrize("flags", [("--interval", "0.05"), ("--interval", "x"), ("--count", "-1")])
def test_flags_that_cannot_be_meant_end_it_with_2(ctl: Ctl, flags: tuple[str, str]) -> None:
    ended = ctl("top", *flags)
    assert (ended.code, ended.out) == (2, "")


def test_a_closed_pipe_ends_it_silently(
    service: FakeService, environment: Mapping[str, str]
) -> None:
    service.answer("GetSystemStatus", look())
    for output in ("table", "json", "yaml"):
        script = f"{CTL} top {' '.join(SOON)} --output {output} | head -1; echo ${{PIPESTATUS[0]}}"
        ended = in_bash(script, environment)
        assert ended.stderr == ""
        assert ended.stdout.splitlines()[-1] == "0"


def test_q_ends_it_and_gives_the_terminal_back(
    service: FakeService, environment: Mapping[str, str]
) -> None:
    service.answer("GetSystemStatus", look())
    with Terminal([CTL, "top", "--interval", "3600"], environment) as terminal:
        before = terminal.modes()
        terminal.sees("emails")
        assert terminal.modes() != before
        terminal.press("x")
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.modes() == before
        assert "\x1b[?1049l" in terminal.text()
        assert "emails" in terminal.text().rpartition("\x1b[?1049l")[2]


def test_q_is_heard_while_the_server_is_silent(environment: Mapping[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        patient = [CTL, "top", "--timeout", "600", "--server-addr", address]
        with Terminal(patient, environment) as terminal:
            terminal.sees("\x1b[?1049h")
            terminal.press("q")
            assert terminal.ended() == 0


def test_an_interrupt_ends_it_with_130_and_gives_the_terminal_back(
    service: FakeService, environment: Mapping[str, str]
) -> None:
    service.answer("GetSystemStatus", look())
    with Terminal([CTL, "top", "--interval", "3600"], environment) as terminal:
        before = terminal.modes()
        terminal.sees("emails")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ended() == 130
        assert terminal.modes() == before
        assert "\x1b[?1049l" in terminal.text()


def test_the_screen_keeps_the_last_frame_while_the_server_is_away(
    service: FakeService, environment: Mapping[str, str]
) -> None:
    service.answer("GetSystemStatus", look(), AWAY)
    with Terminal([CTL, "top", *SOON], environment, columns=60) as terminal:
        terminal.sees("trying again")
        terminal.sees("emails")
        service.answer("GetSystemStatus", look(2))
        asked = len(service.asked["GetSystemStatus"])
        eventually_sync(lambda: len(service.asked["GetSystemStatus"]) > asked + 2, within_s=30)
        terminal.sees("emails")
        terminal.press("q")
        assert terminal.ended() == 0
        assert "trying again" not in terminal.text().rpartition("\x1b[?1049l")[2]
