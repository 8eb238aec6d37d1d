"""Failed sign-ins are counted in the database, for all processes that share it; each notes which keys it uses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("control_processes", sa.Column("token_key", sa.String(length=64)))
    op.create_table(
        "attempts",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_attempts")),
    )
    op.create_index(op.f("ix_attempts_at"), "attempts", ["at"])
    op.create_table(
        "known_addresses",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_known_addresses")),
    )
    op.create_index(op.f("ix_known_addresses_at"), "known_addresses", ["at"])


def downgrade() -> None:
    for name in ("known_addresses", "attempts"):
        op.drop_index(op.f(f"ix_{name}_at"), name)
        op.drop_table(name)
    op.drop_column("control_processes", "token_key")
