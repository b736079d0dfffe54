"""Every statement lives in one file, is used once, fits the schema, and is nowhere else."""

import ast
import re
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from jobqueue.domain.state import JobStatus, Reason
from jobqueue.domain.worker import WorkerCommand, WorkerStatus
from jobqueue.store.statements import names, statement

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jobqueue"
GENERATED = ("v1", "externalscaler")
_SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s", re.ASCII)
_COMMENT = re.compile(r"--.*")


def python_files() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if p.parent.name not in GENERATED)


def calls_of_statement(path: Path) -> list[str]:
    """Return the names that a file passes to ``statement``."""
    return [
        node.args[0].value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "statement"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


def documentation(tree: ast.AST) -> set[int]:
    """Return the ids of the string nodes that stand alone: docstrings and notes."""
    return {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}


def body(name: str) -> str:
    """Return a statement without its comments."""
    return _COMMENT.sub("", statement(name))


async def test_every_statement_fits_the_migrated_schema(conn: asyncpg.Connection) -> None:
    for name in names():
        prepared = await conn.prepare(statement(name))
        used = {int(number) for number in re.findall(r"\$(\d+)", body(name))}
        # Without gaps, or PostgreSQL could not tell the type of the missing one.
        assert used == set(range(1, len(prepared.get_parameters()) + 1)), name


@pytest.mark.parametrize("name", names())
def test_a_statement_says_what_it_does_and_what_its_parameters_are(name: str) -> None:
    text = statement(name)
    assert text.startswith("-- ")
    assert text.endswith(";\n")
    assert body(name).count(";") == 1, "one statement a file"
    header = "".join(line for line in text.splitlines(keepends=True) if line.startswith("--"))
    for parameter in set(re.findall(r"\$\d+", body(name))):
        assert parameter in header, f"{parameter} is explained"


def test_every_statement_is_used_in_exactly_one_place() -> None:
    used = Counter(name for path in python_files() for name in calls_of_statement(path))
    assert used == Counter(names())


def test_no_text_outside_the_store_is_sql() -> None:
    found = []
    for path in python_files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        skip = documentation(tree)
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {node.value[:60]}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skip
            and _SQL.match(node.value)
        ]
    assert found == []


@pytest.mark.parametrize(("type_", "ours"), [("job_state", JobStatus), ("move_reason", Reason)])
async def test_our_words_are_the_databases_words(
    conn: asyncpg.Connection, type_: str, ours: type[JobStatus] | type[Reason]
) -> None:
    theirs = await conn.fetchval(f"SELECT enum_range(NULL::jobqueue.{type_})::text[]")
    assert theirs == list(ours)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("status", {*WorkerStatus}),
        # The answer of a beat, and never stored.
        ("command", {*WorkerCommand} - {WorkerCommand.YIELD}),
    ],
)
async def test_the_words_for_workers_are_the_databases_words(
    conn: asyncpg.Connection, column: str, words: set[str]
) -> None:
    check = await conn.fetchval(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1",
        f"workers_{column}_check",
    )
    assert set(re.findall(r"'(\w+)'", check)) == words
