"""Deleted workloads can be found by the moment they went, so that old ones can be let go of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    where = sa.text("gone_at IS NOT NULL")
    op.create_index(op.f("ix_workloads_gone_at"), "workloads", ["gone_at"], unique=False, sqlite_where=where)


def downgrade() -> None:
    op.drop_index(op.f("ix_workloads_gone_at"), table_name="workloads")
