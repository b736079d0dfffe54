"""What the documents say about the code is true: paths, names, links, settings, transitions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueue.config.describe import describe
from jobqueue.config.keys import RULES, variable_of
from jobqueue.config.model import Settings
from jobqueue.config.rules import Choice, Flag, Integer, Number
from jobqueue.domain.state import EVENT_TYPES, JobStatus, Reason
from jobqueue.telemetry.metrics import WorkerMetrics
from jobqueue.telemetry.metrics_server import ServerMetrics
from tests.support.metrics import page_of

ROOT = Path(__file__).parents[2]
_FOLDERS = ("docs", "k8s", "deploy")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.md"))],
    key=lambda path: path.as_posix(),
)

LEAST_STEPS = 60

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_SUFFIXES = (".py", ".sql", ".md", ".proto", ".toml", ".ini")
_PATH = re.compile(r"\.?[\w./*-]+")


def _quoted(text: str) -> list[str]:
    return _QUOTED.findall(_FENCE.sub("", text))


def _rows(text: str, heads: str) -> Iterator[list[str]]:
    """Yield the cells of every row of the tables whose first line is ``heads``."""
    lines = iter(text.splitlines())
    for line in lines:
        if line == heads:
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    break
                yield [cell.strip() for cell in row.strip("|").split("|")]


def _headings(document: Path) -> set[str]:
    """Return the names by which links find its headings."""
    found = _HEADING.findall(_FENCE.sub("", document.read_text(encoding="utf-8")))
    texts = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in found]
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in texts}


def _is_path(name: str) -> bool:
    """A file has one of our suffixes, a folder ends in a slash; a pattern is neither."""
    if not _PATH.fullmatch(name) or "*" in name:
        return False
    return name.endswith(_SUFFIXES) or (name.endswith("/") and not name.startswith("/"))


def _exists(name: str, document: Path) -> bool:
    return any((base / name).exists() for base in (ROOT, ROOT / "jobqueue", document.parent))


def _defines(path: Path, name: str) -> bool:
    """Tell whether a file defines ``f``, ``C`` or ``C.f``; a statement defines what it is named."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        return (
            path.stem == name
            or re.search(rf"(FUNCTION|TABLE) jobqueue\.{name}\b", text) is not None
        )
    definition = r"^\s*(async def|def|class) {}\b"
    return all(re.search(definition.format(part), text, re.MULTILINE) for part in name.split("."))


def test_there_are_documents_to_check() -> None:
    assert {"README.md", "architecture.md", "configuration.md", "job-lifecycle.md"} <= {
        path.name for path in DOCUMENTS
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_path_a_document_names_exists(document: Path) -> None:
    named = {name for name in _quoted(document.read_text(encoding="utf-8")) if _is_path(name)}
    assert [name for name in sorted(named) if not _exists(name, document)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_inside_the_project_leads_somewhere(document: Path) -> None:
    links = _LINK.findall(_FENCE.sub("", document.read_text(encoding="utf-8")))
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_to_a_heading_finds_it(document: Path) -> None:
    links = _ANCHOR.findall(_FENCE.sub("", document.read_text(encoding="utf-8")))
    inside = [(document.parent / path if path else document, name) for path, name in links]
    assert [
        (path.name, name)
        for path, name in inside
        if path.suffix == ".md" and path.is_file() and name not in _headings(path)
    ] == []


def test_every_name_on_the_walk_through_the_code_is_defined_in_its_file() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = [
        (path, name)
        for file, names, _ in _rows(text, "| file | names | what happens |")
        for path in _quoted(file)
        for name in _quoted(names)
    ]
    assert len(steps) > LEAST_STEPS, "the table was not found whole"
    assert [step for step in steps if not _defines(ROOT / step[0], step[1])] == []


def test_every_test_that_a_document_names_exists() -> None:
    named = [
        name.split("::")
        for document in DOCUMENTS
        for name in _quoted(document.read_text(encoding="utf-8"))
        if name.startswith("tests/") and "::" in name
    ]
    assert named
    assert [(path, name) for path, name in named if not _defines(ROOT / path, name)] == []


def test_the_walk_leaves_out_no_sql_statement_that_moves_a_job_between_worker_and_queue() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for moved in ("claim_jobs", "complete_leases", "settle_leases"):
        assert f"`alembic/sql/0001/08_leases.sql` | `{moved}`" in text
    assert "`jobqueue/store/sql/lock_expired_leases.sql`" in text


def test_the_table_of_transitions_is_the_one_the_code_has() -> None:
    text = (ROOT / "docs" / "job-lifecycle.md").read_text(encoding="utf-8")
    told: dict[tuple[JobStatus | None, JobStatus], str] = {}
    reasons: set[Reason] = set()
    for source, target, event, words in _rows(text, "| from | to | event | reasons |"):
        move = (None if source == "—" else JobStatus(source), JobStatus(target))
        told[move] = event.strip("`")
        reasons.update(Reason(word) for word in _quoted(words))
    assert told == EVENT_TYPES
    assert reasons == set(Reason)


def test_the_table_of_settings_is_the_one_the_code_has() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    told = [row[:4] for row in _rows(text, "| key | variable | default | allowed | meaning |")]
    assert told == [_setting(key) for key in RULES]


def test_every_setting_is_explained() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = _rows(text, "| key | variable | default | allowed | meaning |")
    assert [row[0] for row in rows if not row[4]] == []


def _setting(key: str) -> list[str]:
    default = describe(Settings())[key]
    shown = "—" if default == "-" else f"`{default}`"
    return [f"`{key}`", f"`{variable_of(key)}`", shown, _allowed(key)]


def _allowed(key: str) -> str:
    match RULES[key]:
        case Integer(low, high) | Number(low, high):
            return f"{low:.15g} to {high:.15g}"
        case Choice(words):
            return " ".join(f"`{word}`" for word in words)
        case Flag():
            return "`true` `false`"
        case rule:
            return _KINDS[type(rule).__name__]


_KINDS = {
    "Address": "address",
    "Text": "text",
    "TextList": "list",
    "SecretText": "secret",
    "ApiKeys": "list of secrets",
    "Commands": "mapping",
    "KafkaOptions": "mapping",
}


def _served() -> set[str]:
    """Return the names of all metrics, of both programs."""
    pages = [page_of(m.page("")[0].decode()) for m in (ServerMetrics(None), WorkerMetrics(["q"]))]
    # The last one is shown once there is a worker to watch.
    return {name for page in pages for name in page.families} | {"jq_worker_job_concurrency"}


def test_the_page_about_metrics_names_exactly_those_that_are_served() -> None:
    told = {
        name
        for row in _rows(
            (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"),
            "| metric | type | labels | program | over targets | meaning |",
        )
        for name in _QUOTED.findall(row[0])
    }
    assert told == _served()


def test_no_document_asks_for_a_metric_that_is_not_served() -> None:
    served = _served()
    parts = {f"{name}_{part}" for name in served for part in ("bucket", "count", "sum")}
    for document in DOCUMENTS:
        named = set(re.findall(r"\bjq_[a-z_]+[a-z]\b", document.read_text(encoding="utf-8")))
        unknown = named - served - parts - {"jq_user", "jq_worker"}
        assert not unknown, document
