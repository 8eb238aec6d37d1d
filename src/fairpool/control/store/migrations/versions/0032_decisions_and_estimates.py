"""Estimates of when waiting work starts, and which lines of history are decisions of the scheduler."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "start_estimates",
        sa.Column("workload", sa.String(64), nullable=False),
        sa.Column("waiting_since", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("expected_at", sa.BigInteger(), nullable=False),
        sa.Column("earliest_at", sa.BigInteger()),
        sa.Column("latest_at", sa.BigInteger()),
        sa.Column("basis", sa.String(128), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("workload", "waiting_since", name=op.f("pk_start_estimates")),
    )
    op.create_index(op.f("ix_start_estimates_made_at"), "start_estimates", ["made_at"])
    op.add_column("events", sa.Column("decision", sa.String(32)))
    decided = sa.text("decision IS NOT NULL")
    op.create_index(
        op.f("ix_events_decisions"),
        "events",
        ["at", "cluster", "number"],
        sqlite_where=decided,
        postgresql_where=decided,
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_events_decisions"), "events")
    op.drop_column("events", "decision")
    op.drop_table("start_estimates")
