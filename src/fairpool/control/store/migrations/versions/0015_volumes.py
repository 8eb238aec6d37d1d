"""Volume claims know their access mode, their lifetime and their cluster; config maps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0013"
branch_labels = None
depends_on = None

SHARED = "rwm"
"""What claims were so far: pods of all nodes could write to them at the same time."""


def upgrade() -> None:
    for column in (
        sa.Column("access_mode", sa.String(length=8), nullable=False, server_default=SHARED),
        sa.Column("ephemeral", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("workload", sa.String(length=64), nullable=False, server_default=""),
        sa.Column("cluster", sa.String(length=64), nullable=False, server_default=""),
        sa.Column("phase", sa.String(length=16), nullable=False, server_default="Ready"),
    ):
        op.add_column("claims", column)
    op.execute(
        "UPDATE claims SET cluster = COALESCE((SELECT cluster FROM projects WHERE projects.name = claims.project), '')"
    )
    op.create_table(
        "config_maps",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=256), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "name", name=op.f("pk_config_maps")),
    )


def downgrade() -> None:
    op.drop_table("config_maps")
    for name in ("phase", "cluster", "workload", "ephemeral", "access_mode"):
        op.drop_column("claims", name)
