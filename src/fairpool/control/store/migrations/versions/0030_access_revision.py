"""A number that changes with what callers are made of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("revision", sa.Column("access", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("revision", "access")
