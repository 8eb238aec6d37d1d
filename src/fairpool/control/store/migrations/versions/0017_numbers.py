"""Numbers of departments, projects and node pools, and who created and changed a pool."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

NUMBERED = ("departments", "projects", "node_pools")


def upgrade() -> None:
    for name in NUMBERED:
        op.add_column(name, sa.Column("number", sa.BigInteger(), nullable=False, server_default="0"))
        table = sa.table(name, sa.column("number", sa.BigInteger), sa.column("revision", sa.BigInteger))
        op.execute(table.update().values(number=table.c.revision))  # no two rows have the same
        op.create_index(op.f(f"ix_{name}_number"), name, ["number"])
    for column in ("created_by", "updated_by"):
        op.add_column("node_pools", sa.Column(column, sa.String(length=256), nullable=False, server_default=""))


def downgrade() -> None:
    for column in ("updated_by", "created_by"):
        op.drop_column("node_pools", column)
    for name in reversed(NUMBERED):
        op.drop_index(op.f(f"ix_{name}_number"), table_name=name)
        op.drop_column(name, "number")
