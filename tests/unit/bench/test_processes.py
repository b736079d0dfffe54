import json
import sys
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.ours import script, variables, worker
from bench.processes import Launch, Program, module, until
from bench.programs.talk import PAYLOAD_BYTES, json_payload
from bench.workloads.all import WORKLOADS

_TALKER = """
import asyncio
from bench.programs.talk import submit_in_batches
async def submit(count): pass
asyncio.run(submit_in_batches(submit))
"""


def test_every_payload_has_the_same_size() -> None:
    assert len(json_payload().encode()) == PAYLOAD_BYTES
    json.loads(json_payload())


async def test_a_program_stores_what_it_is_ordered_to(tmp_path: Path) -> None:
    launch = Launch((sys.executable, "-c", _TALKER))
    async with Program(launch, tmp_path / "log", talks=True) as program:
        await program.ready()
        await program.ask(jobs=25, batch=10, callers=2, seconds=30)
        assert (await program.heard(30))["stored"] == 25


async def test_a_program_whose_time_is_up_says_what_it_did(tmp_path: Path) -> None:
    launch = Launch((sys.executable, "-c", _TALKER))
    async with Program(launch, tmp_path / "log", talks=True) as program:
        await program.ready()
        await program.ask(jobs=25, batch=10, callers=1, seconds=-1)
        assert (await program.heard(30))["stored"] == 0


async def test_a_program_that_ends_says_why(tmp_path: Path) -> None:
    async with Program(module("bench.no_such_module"), tmp_path / "log", talks=True) as program:
        with pytest.raises(BenchError, match="no_such_module"):
            await program.ready()


async def test_no_program_outlives_its_cell(tmp_path: Path) -> None:
    ignores = "import signal, time; signal.signal(15, signal.SIG_DFL); print(1); time.sleep(60)"
    launch = Launch((sys.executable, "-c", ignores))
    async with Program(launch, tmp_path / "log") as program:
        pid = program.pid
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(("look_s", "rest_s"), [(0.0, 0.005), (0.002, 0.02), (0.5, 0.05)])
async def test_looks_are_far_apart_and_the_last_one_comes_soon(
    monkeypatch: pytest.MonkeyPatch, look_s: float, rest_s: float
) -> None:
    now, rests = [0.0], []
    answers = iter([False, True])

    async def look() -> bool:
        now[0] += look_s
        return next(answers)

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr("bench.processes.time.monotonic", lambda: now[0])
    monkeypatch.setattr("bench.processes.asyncio.sleep", rest)
    await until(look, within_s=60.0, what="an end")
    assert rests == [pytest.approx(rest_s)]


def test_settings_of_the_shell_do_not_reach_the_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JQ_DB_POOL_SIZE", "99")
    env = worker("postgresql:///x", lease_duration_s=3).environment()
    assert "JQ_DB_POOL_SIZE" not in env
    assert (env["JQ_DB_URL"], env["JQ_LEASE_DURATION_S"]) == ("postgresql:///x", "3")
    assert variables(a_b=1) == {"JQ_A_B": "1"}
    assert Path(script("jq-worker")).name == "jq-worker"


def test_workloads_have_names_of_their_own() -> None:
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)
