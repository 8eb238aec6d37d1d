"""Storage classes of claims, and what clusters report about their objects."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("claims", sa.Column("storage_class", sa.String(256), nullable=False, server_default=""))
    op.create_table(
        "cluster_equipment",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("cluster_equipment")
    op.drop_column("claims", "storage_class")
