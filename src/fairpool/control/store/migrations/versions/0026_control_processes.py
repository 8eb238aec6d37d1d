"""The processes of one database, the tunnels that they hold, and what one of them does at a time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "control_processes",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("address", sa.String(length=256), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_control_processes")),
    )
    op.create_table(
        "cluster_tunnels",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("process", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_cluster_tunnels")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )


def downgrade() -> None:
    for name in ("leases", "cluster_tunnels", "control_processes"):
        op.drop_table(name)
