"""The embedded PostgreSQL on real folders, with real kills."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from jobqueue.embedded import cluster, identity
from jobqueue.embedded import server as embedded_server
from jobqueue.embedded.binaries import default_data_dir, find_binaries
from jobqueue.embedded.facts import read_dsn, read_facts
from jobqueue.embedded.folder import is_held
from jobqueue.embedded.identity import Identity
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import EmbeddedError
from tests.support.postgres import PG15_BIN
from tests.support.waiting import eventually_sync

_HOLDER = """
import sys
from pathlib import Path
from jobqueue.embedded.server import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
server.start()
print(server.pid, flush=True)
sys.stdin.read()
server.stop()
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """Start another process that runs the database; its first line is the server's pid."""
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def server_pid(holder: subprocess.Popen[str]) -> int:
    assert holder.stdout is not None
    return int(holder.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    process.communicate()
    assert process.returncode is not None


def gone(pid: int) -> Callable[[], bool]:
    return lambda: not Path(f"/proc/{pid}").exists()


async def query(dsn: str, sql: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


def without_user_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_succeeds", lambda command: "namespace" not in command)


async def test_a_new_folder_becomes_a_utc_database_sorted_by_code_point(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        assert await query(server.dsn, "SELECT current_database()") == "jobqueue"
        assert await query(server.dsn, "SHOW timezone") == "UTC"
        assert await query(server.dsn, "SELECT 'B' < 'a'") is True
        assert await query(server.dsn, "SHOW listen_addresses") == ""


async def test_data_is_kept_across_restarts(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path)
    with server:
        await query(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    with server:
        assert await query(server.dsn, "SELECT answer FROM kept") == 42


def test_a_stop_is_clean_and_leaves_no_process_and_no_facts(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        pid = server.pid
    assert gone(pid)()
    assert "database system is shut down" in (tmp_path / "postgres.log").read_text()
    assert not (tmp_path / "data" / "postmaster.pid").exists()
    assert read_facts(tmp_path) is None


def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path, durable=False)
    server.start()
    server.stop()
    server.stop()
    with pytest.raises(EmbeddedError, match="not started"):
        _ = server.dsn


def test_a_second_start_is_refused_naming_the_process(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    pid = server_pid(holder)
    with pytest.raises(EmbeddedError, match=f"already run by process {holder.pid}$"):
        EmbeddedPostgres(tmp_path).start()
    assert not gone(pid)(), "the refused start must not disturb the running one"
    end(holder)


async def test_a_second_start_in_one_process_leaves_the_first_alone(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        with pytest.raises(EmbeddedError, match="already run"):
            EmbeddedPostgres(tmp_path).start()
        assert await query(server.dsn, "SELECT 1") == 1


async def test_a_joiner_in_another_process_finds_the_database(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    pid = server_pid(holder)
    assert await query(read_dsn(tmp_path), "SELECT 1") == 1
    facts = read_facts(tmp_path)
    assert facts is not None
    assert facts.pid == pid
    assert facts.major == find_binaries().major
    end(holder)


def test_joining_where_nothing_runs_says_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="jq-server --embedded"):
        read_dsn(tmp_path)


def test_joining_after_the_server_died_says_that_it_does_not_answer(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    pid = server_pid(holder)
    holder.kill()
    holder.communicate()
    eventually_sync(gone(pid), what="the end of the orphan")
    with pytest.raises(EmbeddedError, match="does not answer"):
        read_dsn(tmp_path)


def test_the_server_ends_with_a_killed_owner(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    pid = server_pid(holder)
    holder.kill()
    holder.communicate()
    eventually_sync(gone(pid), what="the end of the orphan")


async def test_a_folder_whose_server_was_killed_starts_again_with_its_data(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path)
    server.start()
    await query(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    assert (tmp_path / "data" / "postmaster.pid").exists()
    with EmbeddedPostgres(tmp_path) as again:
        assert await query(again.dsn, "SELECT answer FROM kept") == 42


async def test_a_pid_file_that_names_a_stranger_is_no_obstacle(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, durable=False):
        stale = (tmp_path / "data" / "postmaster.pid").read_text().splitlines()
    stale[0] = str(os.getpid())
    (tmp_path / "data" / "postmaster.pid").write_text("\n".join(stale) + "\n")
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        assert await query(server.dsn, "SELECT 1") == 1


def test_a_shell_in_the_data_folder_is_no_obstacle(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, durable=False):
        pass
    shell = subprocess.Popen(["/bin/cat"], cwd=tmp_path / "data", stdin=subprocess.PIPE)
    try:
        with EmbeddedPostgres(tmp_path, durable=False):
            assert shell.poll() is None
    finally:
        shell.communicate()


async def test_a_killed_owner_is_followed_at_once(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    server_pid(holder)
    holder.kill()
    holder.communicate()
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        assert await query(server.dsn, "SELECT 1") == 1


@pytest.mark.parametrize("obstacle", ["lock", "jobqueue.json"])
def test_a_file_that_cannot_be_written_is_named_and_frees_the_folder(
    tmp_path: Path, obstacle: str
) -> None:
    (tmp_path / obstacle).mkdir()
    with pytest.raises(EmbeddedError, match=f"{obstacle}.*: Is a directory"):
        EmbeddedPostgres(tmp_path, durable=False).start()
    (tmp_path / obstacle).rmdir()
    assert not is_held(tmp_path)


async def test_an_interrupted_creation_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "data.partial").mkdir()
    (tmp_path / "data.partial" / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        assert await query(server.dsn, "SELECT 1") == 1


def test_a_cluster_without_its_database_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "DATABASE", "postgres")  # there is one of that name
    with pytest.raises(EmbeddedError, match="already exists"):
        EmbeddedPostgres(tmp_path, durable=False).start()
    assert not (tmp_path / "data").exists()


async def test_a_folder_with_a_long_path_gets_its_socket_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    with EmbeddedPostgres(folder, durable=False) as server:
        facts = read_facts(folder)
        assert facts is not None
        socket_dir = Path(facts.socket_dir)
        assert socket_dir.stat().st_mode & 0o777 == 0o700
        assert await query(server.dsn, "SELECT 1") == 1
    assert not socket_dir.exists()


async def test_the_next_run_on_a_long_path_is_found_where_the_last_one_was(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    with EmbeddedPostgres(folder, durable=False) as server:
        first = server.dsn
    with EmbeddedPostgres(folder, durable=False):
        assert await query(first, "SELECT 1") == 1


async def test_a_taken_socket_folder_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    with EmbeddedPostgres(folder, durable=False) as server:
        facts = read_facts(folder)
    assert facts is not None
    taken = Path(facts.socket_dir)
    taken.mkdir()
    try:
        with EmbeddedPostgres(folder, durable=False) as server:
            assert await query(server.dsn, "SELECT 1") == 1
            assert list(taken.iterdir()) == []
    finally:
        taken.rmdir()


def test_a_killed_start_left_the_socket_folder_that_the_next_one_uses(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    with EmbeddedPostgres(folder, durable=False) as server:
        first = server.dsn
        facts = read_facts(folder)
    assert facts is not None
    Path(facts.socket_dir).mkdir(mode=0o700)
    with EmbeddedPostgres(folder, durable=False) as server:
        assert server.dsn == first


@pytest.mark.parametrize("name", ["short", "long" * 30])
async def test_a_start_on_a_copy_leaves_the_socket_of_the_original_alone(
    tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "copy"
    with EmbeddedPostgres(tmp_path / name, durable=False) as original:
        copy.mkdir()
        shutil.copy(tmp_path / name / "jobqueue.json", copy)
        with EmbeddedPostgres(copy, durable=False):
            assert await query(original.dsn, "SELECT 1") == 1


@pytest.mark.parametrize("name", ["short", "long" * 30])
async def test_a_database_is_revived_where_it_was_after_tries_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_: object) -> None:
        raise EmbeddedError("not this time")

    with EmbeddedPostgres(tmp_path / name, durable=False) as server:
        dsn = server.dsn
        await query(dsn, "DO $$ BEGIN RAISE LOG 'of the first run'; END $$")
        os.kill(server.pid, signal.SIGKILL)
        with monkeypatch.context() as failing:
            failing.setattr(server, "_await_ready", refuse)
            for _ in range(3):
                with pytest.raises(EmbeddedError, match="not this time"):
                    eventually_sync(server.revive, what="a try")
        assert server.revive()
        assert server.dsn == dsn
        assert await query(dsn, "SELECT 1") == 1
        assert "of the first run" in (tmp_path / name / "postgres.log.1").read_text()


async def test_a_database_that_was_killed_is_revived_with_its_data(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path) as server:
        await query(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
        assert not server.revive()
        os.kill(server.pid, signal.SIGKILL)
        eventually_sync(server.revive, what="the revival")
        assert await query(server.dsn, "SELECT answer FROM kept") == 42
        assert read_dsn(tmp_path) == server.dsn


async def test_a_stop_ends_a_revival_that_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = threading.Event()

    def recovers(*_: object) -> str:
        waited.set()
        return "starting"

    server = EmbeddedPostgres(tmp_path, durable=False)
    server.start()
    os.kill(server.pid, signal.SIGKILL)
    monkeypatch.setattr(embedded_server, "postmaster_line", recovers)
    reviving = asyncio.ensure_future(asyncio.to_thread(eventually_sync, server.revive))
    await asyncio.to_thread(waited.wait)
    await asyncio.to_thread(server.stop)
    with pytest.raises(EmbeddedError, match="not ready when it was to stop"):
        await reviving
    assert not is_held(tmp_path)


async def test_a_folder_with_odd_characters_has_a_working_url(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "a b&c=%41", durable=False) as server:
        assert await query(server.dsn, "SELECT 1") == 1


def test_only_the_data_folder_changes_its_permissions(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir(mode=0o711)
    with EmbeddedPostgres(outer / "inner", durable=False):
        assert outer.stat().st_mode & 0o777 == 0o711
        assert (outer / "inner").stat().st_mode & 0o777 == 0o700


def test_data_of_another_major_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedError, match="made by PostgreSQL 9"):
        EmbeddedPostgres(tmp_path).start()


def test_a_setting_postgresql_refuses_is_shown_and_frees_the_folder(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        EmbeddedPostgres(tmp_path, settings={"no_such_setting": "1"}).start()
    with EmbeddedPostgres(tmp_path, durable=False):
        assert read_dsn(tmp_path)


@pytest.mark.skipif(not PG15_BIN.exists(), reason="no system PostgreSQL 15")
async def test_programs_of_the_system_run_too(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, durable=False, bin_dir=PG15_BIN) as server:
        version = await query(server.dsn, "SHOW server_version")
        assert str(version).startswith("15.")


@pytest.mark.skipif(
    os.geteuid() != 0 or not PG15_BIN.exists(),
    reason="needs root, and programs that nobody may run",
)
async def test_root_without_user_namespaces_runs_as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    without_user_namespaces(monkeypatch)
    assert identity.choose_identity() is Identity.NOBODY
    # Not tmp_path: its parents are closed to everyone else.
    with tempfile.TemporaryDirectory(dir="/tmp") as outer:
        Path(outer).chmod(0o711)
        folder = Path(outer) / "db"
        with EmbeddedPostgres(folder, durable=False, bin_dir=PG15_BIN) as server:
            assert await query(server.dsn, "SELECT 1") == 1
            assert (folder / "data").owner() == "nobody"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_nobody_is_told_which_folder_it_cannot_reach(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match=f"cannot read {closed}"):
        Identity.NOBODY.require_access(closed)


def test_missing_programs_are_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="no program postgres"):
        find_binaries(tmp_path)


def test_the_default_folder_follows_xdg_and_the_major_version() -> None:
    assert default_data_dir(18, {"XDG_DATA_HOME": "/x"}) == Path("/x/jobqueue/pg18")
