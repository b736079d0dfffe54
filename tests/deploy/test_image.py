"""What goes into the images, as the Dockerfile's own script makes it: small, whole, at work.

(R-10.1) The script runs without a container engine; what it makes is started as plain processes.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import grimp
import pytest

from tests.deploy.conftest import Tell
from tests.support.image_content import staged
from tests.support.programs import Program, environment
from tests.support.redis import free_port
from tests.support.waiting import eventually_sync
from tools.image_content import BASES, CONTENT_LIMIT, IMAGE_LIMIT, size_of

pytestmark = pytest.mark.timeout(600)  # whoever is first makes the environments

ROOT = Path(__file__).parents[2]

# The last ones are started as programs of their own, by file or by name.
ENTRIES = {
    "jq-server": ("jobqueue.cli.server", "jobqueue.cli.healthcheck"),
    "jq-worker": (
        "jobqueue.cli.worker",
        "jobqueue.client",
        "jobqueue.testing",
        "jobqueue.cli.healthcheck",
        "jobqueue.cli.worker_process",
        "jobqueue.lease.keeper_process",
        "jobqueue.remote.keeper_process",
        "jobqueue.telemetry.child",
        "jobqueue.worker.child",
        "jobqueue.worker.guard_process",
    ),
    "jq-ctl": ("jobqueue.cli.ctl.app",),
}
PROGRAMS = tuple(ENTRIES)
Content = Callable[[str], Path]


@pytest.fixture(scope="module")
def image_content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """Return what gives the environment of a program's image."""
    return lambda program: staged(program, tmp_path_factory)


def test_the_modules_that_are_started_as_programs_are_all_known() -> None:
    mains = [
        p for p in (ROOT / "jobqueue").rglob("*.py") if 'if __name__ == "__main__"' in p.read_text()
    ]
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts) for p in mains}
    assert names - {entry for each in ENTRIES.values() for entry in each} <= {
        "jobqueue.embedded.launch"  # the embedded PostgreSQL is in no image
    }


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_content_of_an_image_is_within_its_limits(
    program: str, image_content: Content, validated: Tell
) -> None:
    content = size_of(image_content(program))
    assert content <= CONTENT_LIMIT
    assert content + BASES[program].size <= IMAGE_LIMIT
    validated(f"image of {program}: {content / 1e6:.1f} MB on {BASES[program].tag}")


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_image_holds_its_own_program_and_nothing_for_developers(
    program: str, image_content: Content
) -> None:
    root = image_content(program)
    scripts = {path.name for path in (root / "bin").iterdir() if not path.name.startswith("python")}
    assert scripts == {program}
    unneeded = [p for p in root.rglob("*") if p.suffix in {".pyi", ".c", ".h", ".pyx"}]
    assert [*unneeded, *root.glob("lib/*/site-packages/*/**/tests"), *root.rglob("pip")] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_that_a_program_may_load_is_in_its_image(program: str, image_content: Content) -> None:
    graph = grimp.build_graph("jobqueue", include_external_packages=True, cache_dir=None)
    needed = set(ENTRIES[program])
    for entry in ENTRIES[program]:
        needed |= graph.find_upstream_modules(entry)
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    loaded = subprocess.run(
        [image_content(program) / "bin" / "python", "-I", "-B", "-c", script, *sorted(needed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (loaded.returncode, loaded.stderr) == (0, "")


def test_each_package_of_a_list_is_loaded_by_its_program() -> None:
    graph = grimp.build_graph("jobqueue", include_external_packages=True, cache_dir=None)
    names = {"confluent-kafka", "cryptography", "redis", "alembic", "grpcio-reflection", "rich"}
    modules = {"grpcio-reflection": "grpc_reflection"}
    for program, entries in ENTRIES.items():
        loaded = set().union(*(graph.find_upstream_modules(entry) for entry in entries))
        expected = {n for n in names if modules.get(n, n.replace("-", "_")) in loaded}
        text = (ROOT / f"deploy/image/requirements/{program[3:]}.in").read_text(encoding="utf-8")
        assert names & set(text.split()) == expected


def test_a_job_goes_through_the_programs_of_all_three_images(
    database: str, image_content: Content, tmp_path: Path
) -> None:
    ports = [free_port() for _ in range(5)]
    server, worker, ctl = (image_content(program) / "bin" / program for program in PROGRAMS)
    sizes = [size_of(image_content(program)) for program in PROGRAMS]
    doors = {"db_url": database, "grpc_port": ports[0]}
    serving = Program(
        [str(server)], tmp_path, variables(**doors, health_port=ports[1], metrics_port=ports[2])
    )
    working = Program(
        [str(worker), "--allow-shell"],
        tmp_path,
        variables(db_url=database, health_port=ports[3], metrics_port=ports[4]),
    )
    try:
        serving.ready()
        working.ready()
        job = ["--queue", "default", "--type", "shell", "--payload", '{"command": "echo well"}']
        address = f"127.0.0.1:{ports[0]}"
        done = run(ctl, "job", "submit", *job, "--wait", server_addr=address)
        assert done.returncode == 0, done.stderr
        assert healthy(server, "/readyz", health_port=ports[1])
        assert healthy(worker, "/readyz", health_port=ports[3])
        working.process.terminate()
        assert working.ended() == 0
        eventually_sync(lambda: not healthy(worker, "/healthz", health_port=ports[3]))
        serving.process.terminate()
        assert serving.ended() == 0
    finally:
        serving.kill()
        working.kill()
    assert [size_of(image_content(program)) for program in PROGRAMS] == sizes


def variables(**settings: object) -> dict[str, str]:
    """Return what a program of an image has around it: there it compiles nothing for the next.

    Here that would be added to the content, which another test process may measure just then.
    """
    return environment(**settings) | {"PYTHONDONTWRITEBYTECODE": "1"}


def run(program: Path, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run a program of an image to its end."""
    return subprocess.run(
        [program, *arguments],
        env=variables(**settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def healthy(program: Path, path: str, **settings: object) -> bool:
    """Ask as the container's runtime does."""
    python = program.with_name("python")
    return run(python, "-m", "jobqueue.cli.healthcheck", path, **settings).returncode == 0
