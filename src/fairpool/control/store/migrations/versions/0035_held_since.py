"""Since when pods hold what they hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("holdings", sa.Column("since", sa.BigInteger(), nullable=False, server_default="0"))
    # Of those that are held now it is known since when their pods are in their present phase.
    op.execute("UPDATE holdings SET since = COALESCE((SELECT pods.since FROM pods WHERE pods.id = holdings.pod), 0)")


def downgrade() -> None:
    op.drop_column("holdings", "since")
