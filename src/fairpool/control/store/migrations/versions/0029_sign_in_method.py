"""How a session began."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("method", sa.String(length=32), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("sessions", "method")
