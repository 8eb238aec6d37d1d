"""Custom roles, groups of users, numbers of access rules, and what is known of users besides their password."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

RULES = "access-rule"


def upgrade() -> None:
    for column in (
        sa.Column("created_by", sa.String(length=256), nullable=False, server_default=""),
        sa.Column("updated_at", sa.BigInteger()),
        sa.Column("last_login_at", sa.BigInteger()),
        sa.Column("identity_provider", sa.String(length=64)),
        sa.Column("disabled", sa.Boolean(), nullable=False, server_default=sa.false()),
    ):
        op.add_column("users", column)
    op.create_table(
        "user_groups",
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("group_name", sa.String(length=256), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "group_name", name=op.f("pk_user_groups")),
    )
    op.create_table(
        "roles",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("name_key", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("permissions", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=256), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_roles")),
        sa.UniqueConstraint("key", name=op.f("uq_roles_key")),
        sa.UniqueConstraint("name_key", name=op.f("uq_roles_name_key")),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    _number_rules()


def _number_rules() -> None:
    op.add_column("access_rules", sa.Column("number", sa.BigInteger()))
    op.create_index("ix_access_rules_number", "access_rules", ["number"], unique=True)
    connection = op.get_bind()
    rules = sa.table("access_rules", sa.column("id"), sa.column("number"), sa.column("created_at"))
    ids = connection.execute(sa.select(rules.c.id).order_by(rules.c.created_at, rules.c.id)).scalars().all()
    for number, rule in enumerate(ids, start=1):
        connection.execute(sa.update(rules).where(rules.c.id == rule).values(number=number))
    counters = sa.table("counters", sa.column("name"), sa.column("value"))
    connection.execute(sa.insert(counters).values(name=RULES, value=len(ids)))


def downgrade() -> None:
    op.drop_index("ix_access_rules_number", table_name="access_rules")
    op.drop_column("access_rules", "number")
    for table in ("counters", "roles", "user_groups"):
        op.drop_table(table)
    for name in ("disabled", "identity_provider", "last_login_at", "updated_at", "created_by"):
        op.drop_column("users", name)
