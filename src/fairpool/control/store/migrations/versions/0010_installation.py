"""The installation that joined as a cluster: a second one with the same token is refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("clusters", sa.Column("installation", sa.String(64)))


def downgrade() -> None:
    op.drop_column("clusters", "installation")
