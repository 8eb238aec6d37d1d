"""When a node was first heard of, and when what is reported of it last changed."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    now = time.time_ns() // 1_000_000  # of nodes that are known already, only that they were known by now
    for column in ("created_at", "updated_at"):
        op.add_column("nodes", sa.Column(column, sa.BigInteger(), nullable=False, server_default="0"))
        table = sa.table("nodes", sa.column(column, sa.BigInteger))
        op.execute(table.update().values({column: now}))


def downgrade() -> None:
    op.drop_column("nodes", "updated_at")
    op.drop_column("nodes", "created_at")
