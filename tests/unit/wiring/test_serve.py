"""What a check of the services says of the private PostgreSQL."""

from pathlib import Path

from jobqueue.config.model import Settings
from jobqueue.embedded.facts import Facts, write_facts
from jobqueue.embedded.folder import FolderLock
from jobqueue.wiring.options import EmbeddedChoice
from jobqueue.wiring.serve import Checked, check_services


async def check(folder: Path) -> Checked:
    (found,) = await check_services(Settings(), EmbeddedChoice(folder))
    return found


async def test_one_whose_owner_was_killed_does_not_run_and_one_that_hangs_does(
    tmp_path: Path,
) -> None:
    write_facts(tmp_path, Facts(str(tmp_path / "socket"), 5432, 1, 18))
    lock = FolderLock(tmp_path)
    lock.take()
    assert "does not answer" in str((await check(tmp_path)).error)
    lock.release()
    assert (await check(tmp_path)).line.endswith("not running; it would be started")
