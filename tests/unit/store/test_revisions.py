"""The revisions that programs know without loading alembic are those of its folder (R-10.3)."""

from alembic.script import ScriptDirectory

from jobqueue.store.migrate import REVISIONS
from jobqueue.store.schema_moves import alembic_config


def test_the_revisions_that_programs_know_are_those_of_the_folder_in_their_order() -> None:
    folder = ScriptDirectory.from_config(alembic_config())
    newest_first = [script.revision for script in folder.walk_revisions()]
    assert list(REVISIONS) == newest_first[::-1]
