"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand only: N-1 workers must keep working on the new schema."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Undo the above; drops what it holds."""
    ${downgrades if downgrades else "pass"}
