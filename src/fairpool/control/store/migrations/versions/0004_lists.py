"""Pages of workloads are chosen in an index, and only among those that are there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ORDERS = (("created_at",), ("name",), ("phase", "created_at"), ("phase", "name"), ("project", "created_at"))


def upgrade() -> None:
    there = sa.text("gone_at IS NULL")
    for columns in ORDERS:
        name = f"ix_workloads_there_{'_'.join(columns)}"
        op.create_index(name, "workloads", [*columns, "id"], sqlite_where=there, postgresql_where=there)
    for name in ("ix_workloads_project_created_at", "ix_workloads_name", "ix_workloads_phase"):
        op.drop_index(name, table_name="workloads")


def downgrade() -> None:
    op.create_index("ix_workloads_name", "workloads", ["name"])
    op.create_index("ix_workloads_phase", "workloads", ["phase"])
    op.create_index("ix_workloads_project_created_at", "workloads", ["project", "created_at"])
    for columns in ORDERS:
        op.drop_index(f"ix_workloads_there_{'_'.join(columns)}", table_name="workloads")
