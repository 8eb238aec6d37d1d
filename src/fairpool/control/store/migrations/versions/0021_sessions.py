"""Sessions, access keys of users, and accounts of programs that can be disabled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _add_sessions()
    _add_access_keys()
    for column in (
        sa.Column("kind", sa.String(length=16), nullable=False, server_default="app"),
        sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column("created_by", sa.String(length=256), nullable=False, server_default=""),
        sa.Column("updated_at", sa.BigInteger()),
        sa.Column("last_login_at", sa.BigInteger()),
        sa.Column("former_secret_hash", sa.String(length=64)),
        sa.Column("former_until", sa.BigInteger()),
    ):
        op.add_column("applications", column)


def _add_sessions() -> None:
    sessions = op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("subject_id", sa.String(length=64), nullable=False),
        sa.Column("subject_type", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("client", sa.String(length=128), nullable=False),
        sa.Column("source_ip", sa.String(length=64), nullable=False),
        sa.Column("access_key", sa.String(length=64)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_subject_id"), "sessions", ["subject_id"])
    op.create_index(op.f("ix_sessions_access_key"), "sessions", ["access_key"])
    tokens = sa.table(
        "tokens",
        *(sa.column(name) for name in ("family", "kind", "subject_id", "subject_type", "created_at")),
    )
    text = sa.literal_column
    since = sa.func.min(tokens.c.created_at)
    known = (
        sa.select(
            tokens.c.family,
            sa.func.min(tokens.c.subject_id),
            sa.func.min(tokens.c.subject_type),
            text("'token'"),
            text("''"),
            text("''"),
            since,
            since,
        )
        .where(tokens.c.kind.in_(("access", "refresh")))
        .group_by(tokens.c.family)
    )
    columns = ("id", "subject_id", "subject_type", "kind", "client", "source_ip", "created_at", "used_at")
    op.execute(sessions.insert().from_select(columns, known))


def _add_access_keys() -> None:
    op.create_table(
        "access_keys",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("last_login_at", sa.BigInteger()),
        sa.Column("former_secret_hash", sa.String(length=64)),
        sa.Column("former_until", sa.BigInteger()),
        sa.Column("scope", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_keys")),
        sa.UniqueConstraint("owner", "name", name=op.f("uq_access_keys_owner_name")),
    )


def downgrade() -> None:
    for name in (
        *("kind", "enabled", "created_by", "updated_at", "last_login_at", "former_secret_hash", "former_until"),
    ):
        op.drop_column("applications", name)
    op.drop_table("access_keys")
    op.drop_table("sessions")
