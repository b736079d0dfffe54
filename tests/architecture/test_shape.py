"""The shape of the package: sizes, rooms and public names."""

import importlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jobqueue"
MAX_LINES = 400
GENERATED = (PACKAGE / "v1", PACKAGE / "externalscaler")


def product_files() -> list[Path]:
    """Return our own text files, without what is generated."""
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql"), *(ROOT / "alembic").rglob("*.sql")]
    files += [*(ROOT / "alembic").rglob("*.py"), *(ROOT / "proto").rglob("*.proto")]
    return [path for path in files if path.parent not in GENERATED]


def contracts() -> list[dict[str, object]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, object]] = settings["tool"]["importlinter"]["contracts"]
    return found


def test_no_file_is_longer_than_a_reader_holds_in_mind() -> None:
    sizes = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in product_files()}
    assert {str(p.relative_to(ROOT)): n for p, n in sizes.items() if n > MAX_LINES} == {}


def test_every_room_has_its_place_in_the_layers() -> None:
    (layers,) = [contract for contract in contracts() if contract["type"] == "layers"]
    assert layers["exhaustive"] is True
    assert layers["containers"] == ["jobqueue"]
    lines = layers["layers"]
    assert isinstance(lines, list)
    placed = {room.strip(" ()") for line in lines for room in line.split("|")}
    rooms = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    assert rooms <= placed
    assert not any("ignore_imports" in contract for contract in contracts())


def test_every_room_says_what_it_is_for() -> None:
    rooms = [p for p in PACKAGE.rglob("__init__.py") if p.parent not in GENERATED]
    silent = [str(p.relative_to(ROOT)) for p in rooms if not p.read_text().startswith('"""')]
    assert silent == []


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("jobqueue.worker", {"Context", "Done", "Fail", "RetryLater", "handler"}),
        (
            "jobqueue.client",
            {
                "AsyncClient",
                "CancelOutcome",
                "Check",
                "CheckProgress",
                "Client",
                "ComponentStatus",
                "EventPage",
                "Finding",
                "Job",
                "JobEvent",
                "JobFilter",
                "JobPage",
                "JobSpec",
                "JobStatus",
                "PolicyFields",
                "Queue",
                "QueuePolicy",
                "QueueStats",
                "Reason",
                "Submitted",
                "SystemStatus",
                "Tls",
                "UnhandledType",
                "Verdict",
                "Version",
                "Worker",
                "batches",
            },
        ),
    ],
)
def test_public_names_change_only_on_purpose(module: str, expected: set[str]) -> None:
    public = importlib.import_module(module)
    assert set(public.__all__) == expected
    for name in expected:
        assert getattr(public, name) is not None
