"""A connection with seams meets its accidents where they were asked for (see ``store.seams``)."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import asyncpg
import pytest
import pytest_asyncio

from jobqueue.config.seams import read_seams
from jobqueue.errors import SettingsError
from jobqueue.store import seams
from jobqueue.store.pool import Connection, connect, transaction
from jobqueue.store.statements import statement
from tests.support.programs import environment
from tests.support.store import add_queue
from tests.support.waiting import HANG_S

PAUSE = statement("pause_queue")
PAUSED = "SELECT paused FROM jobqueue.queues WHERE name = 'q'"


@pytest_asyncio.fixture(autouse=True)
async def queue(database: str) -> None:
    connection = await connect(database, connect_timeout_s=HANG_S)
    await add_queue(connection)
    await connection.close()


@pytest.fixture
def armed(
    queue: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setenv("JQ_SEAMS", request.param)
    seams.connection_class.cache_clear()
    yield
    seams.connection_class.cache_clear()


async def paused(database: str) -> bool:
    seams.connection_class.cache_clear()
    looking = await asyncpg.connect(database)
    found: bool = await looking.fetchval(PAUSED)
    await looking.close()
    return found


@pytest.mark.parametrize(
    ("armed", "done"),
    [("pause_queue.before=cut", False), ("pause_queue.after=cut", True)],
    indirect=["armed"],
)
async def test_a_cut_loses_the_statement_or_its_answer(
    database: str, armed: None, *, done: bool
) -> None:
    connection = await connect(database, connect_timeout_s=HANG_S)
    with pytest.raises(asyncpg.ConnectionDoesNotExistError, match="at a seam"):
        await connection.fetch(PAUSE, "q", True)
    assert connection.is_closed()
    assert await paused(database) is done


@pytest.mark.parametrize(
    ("armed", "done"),
    [("pause_queue.open=cut", False), ("pause_queue.after=cut", True)],
    indirect=["armed"],
)
async def test_in_a_transaction_after_is_after_the_commit(
    database: str, armed: None, *, done: bool
) -> None:
    connection = await connect(database, connect_timeout_s=HANG_S)
    with pytest.raises(asyncpg.ConnectionDoesNotExistError, match="at a seam"):
        async with transaction(connection):
            await connection.fetch(PAUSE, "q", True)
    assert await paused(database) is done


@pytest.mark.parametrize("armed", ["pause_queue.after=cut@2"], indirect=True)
async def test_the_nth_time_is_the_only_one(database: str, armed: None) -> None:
    connection = await connect(database, connect_timeout_s=HANG_S)
    await connection.fetch(PAUSE, "q", True)
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await connection.fetch(PAUSE, "q", True)
    connection = await connect(database, connect_timeout_s=HANG_S)
    await connection.fetch(PAUSE, "q", True)
    await connection.close()


async def test_a_rolled_back_statement_passes_no_seam_behind_it(database: str) -> None:
    seen: list[str] = []

    class Noting(seams.Accidents):
        def at(self, seam: str, connection: object, answer: object = None) -> None:
            seen.append(seam)

    kind = type("Noted", (seams.SeamedConnection,), {"accidents": Noting({})})
    connection: Connection = await asyncpg.connect(database, connection_class=kind)
    await connection.fetch(PAUSE, "q", True)
    begun = connection.transaction()
    await begun.start()
    await connection.fetch(PAUSE, "q", True)
    await begun.rollback()
    await connection.close()
    ours = [seam for seam in seen if seam.startswith("pause_queue")]
    assert ours == [f"pause_queue.{at}" for at in ("before", "after", "before", "open")]


@pytest.mark.parametrize(
    ("armed", "done"),
    [
        ("pause_queue.before[rows]=cut", False),
        ("pause_queue.after[rows]=cut", True),
    ],
    indirect=["armed"],
)
async def test_a_statement_that_finds_nothing_is_no_passing_where_rows_are_asked_for(
    database: str, armed: None, *, done: bool
) -> None:
    connection = await connect(database, connect_timeout_s=HANG_S)
    assert await connection.fetch(PAUSE, "nobody's", True) == []
    with pytest.raises(asyncpg.ConnectionDoesNotExistError, match="at a seam"):
        await connection.fetch(PAUSE, "q", True)
    assert await paused(database) is done


@pytest.mark.parametrize("armed", ["pause_queue.before[rows]=cut@2"], indirect=True)
async def test_what_is_not_due_is_committed_and_a_statement_that_fails_is_rolled_back(
    database: str, armed: None
) -> None:
    connection = await connect(database, connect_timeout_s=HANG_S)
    with pytest.raises(asyncpg.DataError):
        await connection.fetch(PAUSE, 5, True)
    with pytest.raises(asyncpg.NotNullViolationError):
        await connection.fetch(PAUSE, "q", None)
    assert not connection.is_in_transaction()
    await connection.fetch(PAUSE, "q", True)
    assert await paused(database)
    await connection.close()


async def test_where_a_word_is_asked_for_another_answer_is_no_passing(database: str) -> None:
    connection = await asyncpg.connect(database)
    accidents = seams.Accidents(read_seams("x.after[YES]=cut"))
    for answer in ("NO", None):
        row = await connection.fetchrow("SELECT $1::text AS answer", answer)
        accidents.at("x.after", connection, row)
    with pytest.raises(asyncpg.ConnectionDoesNotExistError, match="at a seam"):
        accidents.at("x.after", connection, await connection.fetchrow("SELECT 'YES' AS answer"))


def test_chance_is_as_often_as_it_was_asked_for() -> None:
    draws = iter([0.5, 0.005, 0.9, 0.009])
    accidents = seams.Accidents(read_seams("x.after=cut%0.01"), lambda: next(draws))
    due = accidents._seams["x.after"]
    assert [accidents._is_time("x.after", due) for _ in range(4)] == [False, True, False, True]


@pytest.mark.parametrize("armed", ["no_such_statement.after=kill"], indirect=True)
async def test_a_statement_that_is_none_is_a_bad_setting(database: str, armed: None) -> None:
    with pytest.raises(SettingsError, match="no_such_statement"):
        await connect(database)


def test_a_program_that_is_to_be_killed_is_and_says_where(database: str) -> None:
    code = (
        "import asyncio, sys\n"
        "from jobqueue.store.pool import connect, check\n"
        "async def main():\n"
        f"    await check(await connect(sys.argv[1], connect_timeout_s={HANG_S}), {HANG_S})\n"
        "asyncio.run(main())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, database],
        env=environment(seams="check_connection.after=kill"),
        capture_output=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert b"a seam gives" in ended.stdout + ended.stderr


def test_without_accidents_a_connection_is_the_drivers_own() -> None:
    assert seams.connection_class() is asyncpg.Connection
