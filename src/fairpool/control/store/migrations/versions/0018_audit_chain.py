"""The audit log becomes a hash chain, with what was changed; and the places it is forwarded to.

Entries from before stay as they are. The chain begins after the last of them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

COLUMNS = (
    ("http_status", sa.Integer(), "0"),
    ("request_id", sa.String(length=64), ""),
    ("problem", sa.String(length=64), ""),
    ("changes", sa.Text(), ""),
    ("hash", sa.String(length=64), ""),
)


def upgrade() -> None:
    for name, kind, default in COLUMNS:
        op.add_column("audit", sa.Column(name, kind, nullable=False, server_default=default))
    chain = op.create_table(
        "audit_chain",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=False),
        sa.Column("last_hash", sa.String(length=64), nullable=False),
        sa.Column("anchor_id", sa.BigInteger(), nullable=False),
        sa.Column("anchor_hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_chain")),
    )
    last = op.get_bind().execute(sa.text("SELECT COALESCE(MAX(id), 0) FROM audit")).scalar_one()
    start = {"id": 1, "last_id": last, "last_hash": "0" * 64, "anchor_id": last, "anchor_hash": "0" * 64}
    op.bulk_insert(chain, [start])
    op.create_table(
        "audit_forwarding",
        sa.Column("target", sa.String(length=512), nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=False),
        sa.Column("held_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("target", name=op.f("pk_audit_forwarding")),
    )


def downgrade() -> None:
    op.drop_table("audit_forwarding")
    op.drop_table("audit_chain")
    for name, _, _ in reversed(COLUMNS):
        op.drop_column("audit", name)
