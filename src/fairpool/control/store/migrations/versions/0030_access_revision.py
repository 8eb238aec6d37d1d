"""Numbers that change with what callers are made of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("access", "revoked"):
        op.add_column("revision", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    for name in ("access", "revoked"):
        op.drop_column("revision", name)
