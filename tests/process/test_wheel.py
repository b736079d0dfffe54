"""The wheel, away from the checkout: its programs start, migrate and take a job (R-1.1, R-10.4).

The wheel is installed alone into an empty environment; what it depends on is lent by a .pth file
from the environment that runs the tests, so that the test needs no network. A path file comes
after the environment's own packages, so it is the wheel's jobqueue that is imported.
"""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that must succeed; return what it printed."""
    ended = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=clean_environment(cwd),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def clean_environment(home: Path) -> dict[str, str]:
    """Return an environment in which nothing points to the checkout."""
    dropped = ("JQ_", "PYTHON", "COV", "PG")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    return kept | {"HOME": str(home), "JQ_HEALTH_PORT": "0", "JQ_METRICS_PORT": "0"}


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is no checkout."""
    return tmp_path_factory.mktemp("away")


@pytest.fixture(scope="module")
def wheel(away: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet",
        "--wheel-dir", away, ROOT, cwd=away)  # fmt: skip
    (built,) = away.glob("jobqueue-*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, away: Path) -> Path:
    """Install the wheel; return the folder of its programs."""
    venv.create(away / "venv", with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(away / "venv")}))
    run(sys.executable, "-m", "pip", "--python", away / "venv", "install", "--no-deps", "--quiet",
        "--no-index", wheel, cwd=away)  # fmt: skip
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return away / "venv" / "bin"


def test_the_wheel_carries_migrations_statements_and_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
    expected = {
        "py.typed",
        "_commit.txt",
        "_alembic/env.py",
        "_alembic/sql/0001/06_moves.sql",
        "store/sql/claim_jobs.sql",
        "v1/job_pb2.pyi",
    }
    assert {f"jobqueue/{name}" for name in expected} <= files
    assert not [name for name in files if name.startswith(("tests", "examples", "alembic"))]


@pytest.mark.parametrize("program", ["jq-server", "jq-worker", "jq-ctl"])
def test_every_program_tells_its_version_and_its_flags(programs: Path, program: str) -> None:
    home = programs.parents[1]
    assert "0.1.0" in run(programs / program, "--version", cwd=home)
    assert "--help" in run(programs / program, "--help", cwd=home)


def test_an_installed_server_migrates_and_takes_a_job(programs: Path) -> None:
    home = programs.parents[1]
    where = run(programs / "python", "-c", "import jobqueue; print(jobqueue.__file__)", cwd=home)
    assert where.startswith(str(home))
    with serving(programs / "jq-server", home) as port:
        ctl = (programs / "jq-ctl", "--server-addr", f"127.0.0.1:{port}")
        job_id = run(
            *ctl, "job", "submit", "--queue", "default", "--payload", "hello", cwd=home
        ).strip()
        shown = run(*ctl, "--output", "json", "job", "status", job_id, cwd=home)
        assert json.loads(shown)["status"] == "PENDING"


@contextmanager
def serving(server: Path, home: Path) -> Iterator[int]:
    """Run a server with a database of its own; yield its port; it must end cleanly."""
    command = [str(server), "--embedded", "--data-dir", str(home / "data")]
    with subprocess.Popen(
        [*command, "--grpc-port", "0"],
        cwd=home,
        env=clean_environment(home),
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            yield next(
                int(entry["grpc_port"])
                for entry in map(json.loads, program.stdout)
                if entry["message"] == "ready"
            )
            program.send_signal(signal.SIGTERM)
            assert program.wait(timeout=30) == 0
        finally:
            program.kill()
