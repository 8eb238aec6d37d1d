"""Numbers that say whether what is cached of the organization and of a cluster's nodes is still so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("revision", sa.Column("organization", sa.BigInteger(), nullable=False, server_default="0"))
    op.execute("UPDATE revision SET organization = value")
    op.add_column("clusters", sa.Column("nodes_version", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("clusters", "nodes_version")
    op.drop_column("revision", "organization")
