"""What each pod holds, in rows of its own: the figures of nodes are added up from what is reported of pods.

Levels of nodes are forgotten: they held figures of their own, and the next report of each cluster brings them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "holdings",
        sa.Column("pod", sa.String(length=128), nullable=False),
        sa.Column("workload", sa.String(length=64), nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("node", sa.String(length=256), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("gpus_milli", sa.BigInteger(), nullable=False),
        sa.Column("cpu_milli", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pod", name=op.f("pk_holdings")),
    )
    op.create_index(op.f("ix_holdings_workload"), "holdings", ["workload"])
    op.execute("DELETE FROM nodes")
    op.execute("UPDATE clusters SET unsure = TRUE")


def downgrade() -> None:
    op.drop_index(op.f("ix_holdings_workload"), table_name="holdings")
    op.drop_table("holdings")
