"""Identity providers, their accounts and sessions, and sign-ins on their way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "identity_providers",
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=256), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("alias", name=op.f("pk_identity_providers")),
    )
    op.create_table(
        "provider_accounts",
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=256), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("unix_identity", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "subject", name=op.f("pk_provider_accounts")),
    )
    op.create_index(op.f("ix_provider_accounts_user_id"), "provider_accounts", ["user_id"])
    op.create_table(
        "provider_sessions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=256), nullable=False),
        sa.Column("sid", sa.String(length=256), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_provider_sessions")),
    )
    op.create_index(op.f("ix_provider_sessions_provider"), "provider_sessions", ["provider"])
    op.create_index(op.f("ix_provider_sessions_user_id"), "provider_sessions", ["user_id"])
    op.create_table(
        "provider_session_families",
        sa.Column("family", sa.String(length=64), nullable=False),
        sa.Column("session", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("family", name=op.f("pk_provider_session_families")),
    )
    op.create_index(op.f("ix_provider_session_families_session"), "provider_session_families", ["session"])
    op.create_table(
        "sign_in_tickets",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sign_in_tickets")),
    )
    op.create_index(op.f("ix_sign_in_tickets_expires_at"), "sign_in_tickets", ["expires_at"])


def downgrade() -> None:
    for name in (
        "sign_in_tickets",
        "provider_session_families",
        "provider_sessions",
        "provider_accounts",
        "identity_providers",
    ):
        op.drop_table(name)
