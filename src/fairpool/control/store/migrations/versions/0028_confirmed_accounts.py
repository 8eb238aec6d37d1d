"""When a provider last confirmed an account. Passwords of its users go, and expired tokens are found by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "provider_accounts", sa.Column("confirmed_at", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    accounts = sa.table("provider_accounts", *map(sa.column, ("user_id", "created_at", "confirmed_at")))
    users = sa.table("users", *map(sa.column, ("id", "password_hash", "identity_provider", "last_login_at")))
    login = sa.select(users.c.last_login_at).where(users.c.id == accounts.c.user_id).scalar_subquery()
    op.execute(accounts.update().values(confirmed_at=sa.func.coalesce(login, accounts.c.created_at)))
    op.execute(users.update().where(users.c.identity_provider.is_not(None)).values(password_hash=""))
    op.create_index(op.f("ix_tokens_expires_at"), "tokens", ["expires_at"])


def downgrade() -> None:
    op.drop_index(op.f("ix_tokens_expires_at"), "tokens")
    op.drop_column("provider_accounts", "confirmed_at")
