"""The storage: a table per state, events, and the moves that need more than one statement.

Revision ID: 0001
Revises:
"""

from functools import partial
from pathlib import Path

import asyncpg
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SCRIPTS = Path(__file__).parent.parent / "sql" / revision


def upgrade() -> None:
    """Run the scripts in the order of their names, inside the migration's transaction."""
    driver = op.get_bind().connection.dbapi_connection
    for script in sorted(SCRIPTS.glob("*.sql")):
        # The simple protocol takes a whole script at once; SQLAlchemy's execute does not.
        driver.run_async(partial(_execute, script.read_text()))


def downgrade() -> None:
    """Drop everything but the schema itself, which holds alembic's own table."""
    driver = op.get_bind().connection.dbapi_connection
    text = (SCRIPTS / "down" / "drop.sql").read_text()
    driver.run_async(partial(_execute, text))


async def _execute(script: str, driver: asyncpg.Connection) -> None:
    await driver.execute(script)
