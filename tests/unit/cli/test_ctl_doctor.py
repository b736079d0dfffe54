"""jq-ctl doctor: what is asked, what is shown, how it ends."""

import json

import grpc
import pytest
import yaml

from jobqueue.domain.checkup import Check
from jobqueue.v1 import doctor_pb2 as pb
from tests.support.fake_service import Failure, FakeService
from tests.unit.cli.conftest import Ctl


def result(check: str, verdict: str, found: str, **more: object) -> pb.RunDoctorResponse:
    made = pb.CheckResult(check=check, verdict=f"VERDICT_{verdict}", found=found, **more)  # type: ignore[arg-type]
    return pb.RunDoctorResponse(result=made)


PROGRESS = pb.RunDoctorResponse(progress=pb.CheckProgress(check="places", seen=1, about=2))
WELL = result("schema", "OK", "at 0001")
WARNED = result("clocks", "WARN", "w-1 is 9.000 s ahead", advice="Correct the clocks.")
BROKEN = result("places", "FAIL", "1 jobs", examples=["\x1b[2Jid"], advice="Report it.")


@pytest.mark.parametrize(
    ("steps", "code"), [([WELL], 0), ([WELL, WARNED], 0), ([BROKEN, PROGRESS, WELL], 1)]
)
def test_only_a_failed_check_ends_it_with_1(
    service: FakeService, ctl: Ctl, steps: list[pb.RunDoctorResponse], code: int
) -> None:
    service.answer("RunDoctor", [*steps])
    for output in ("table", "json", "yaml"):
        ended = ctl("doctor", "--output", output)
        assert (ended.code, ended.err) == (code, "")


def test_documents_hold_every_finding(service: FakeService, ctl: Ctl) -> None:
    service.answer("RunDoctor", [WELL, PROGRESS, BROKEN])
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        document = read(ctl("doctor", "--output", output).out)
        assert document["checks"][0] == {
            "check": "schema",
            "verdict": "ok",
            "found": "at 0001",
            "examples": [],
            "advice": "",
        }
        assert document["checks"][1]["examples"] == ["\x1b[2Jid"]


def test_a_table_tells_what_to_do_and_obeys_nobody(service: FakeService, ctl: Ctl) -> None:
    service.answer("RunDoctor", [WELL, BROKEN])
    out = ctl("doctor").out
    assert "Report it." in out
    assert "\\u001b[2Jid" in out
    assert "\x1b" not in out


def test_the_flags_say_which_checks_run(service: FakeService, ctl: Ctl) -> None:
    service.answer("RunDoctor", [WELL])
    ctl("doctor", "--check", "places", "--check", "keys", "--quick")
    (asked,) = service.asked["RunDoctor"]
    assert (list(asked.checks), asked.quick) == (["places", "keys"], True)


def test_an_unknown_check_is_refused_naming_all(service: FakeService, ctl: Ctl) -> None:
    ended = ctl("doctor", "--check", "nonsense")
    assert ended.code == 2
    assert all(check in ended.err for check in Check)
    assert service.asked["RunDoctor"] == []


def test_a_check_up_that_breaks_off_is_an_error_and_shows_what_it_found(
    service: FakeService, ctl: Ctl
) -> None:
    service.answer("RunDoctor", [WELL, WARNED, Failure(grpc.StatusCode.UNAVAILABLE, "gone")])
    ended = ctl("doctor")
    assert ended.code == 5
    rows = [line.split("\t") for line in ended.out.splitlines()[:3]]
    assert [row[0].strip() for row in rows] == ["CHECK", "schema", "clocks"]
    assert len({tuple(map(len, row[:2])) for row in rows}) == 1, "aligned"
    assert ended.out.endswith("clocks:\n  Correct the clocks.\n")


def test_help_tells_what_each_check_asks(ctl: Ctl) -> None:
    out = ctl("doctor", "--help").out
    assert all(f"    {check} " in out for check in Check)
