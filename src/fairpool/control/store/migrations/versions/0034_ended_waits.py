"""Waits that ended with a start, and what they last waited for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ended_waits",
        sa.Column("workload", sa.String(64), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("cause", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("workload", "ended_at", name=op.f("pk_ended_waits")),
    )
    op.create_index(op.f("ix_ended_waits_ended_at"), "ended_waits", ["ended_at"])


def downgrade() -> None:
    op.drop_table("ended_waits")
