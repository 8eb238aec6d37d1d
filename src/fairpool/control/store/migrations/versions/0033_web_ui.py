"""Colour slots of projects, also of deleted ones for a while, and what users chose in the web UI."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from fairpool.model.color_slot import color_slot

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("projects", sa.Column("color_slot", sa.Integer(), nullable=False, server_default="0"))
    projects = sa.table(
        "projects",
        sa.column("name", sa.String),
        sa.column("created_at", sa.BigInteger),
        sa.column("color_slot", sa.Integer),
    )
    connection = op.get_bind()
    rows = connection.execute(sa.select(projects.c.created_at, projects.c.name)).all()
    taken: set[int] = set()
    for _, name in sorted((row.created_at, row.name) for row in rows):
        slot = color_slot(name, taken)
        taken.add(slot)
        connection.execute(projects.update().where(projects.c.name == name).values(color_slot=slot))
    op.create_table(
        "left_colors",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("left_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_left_colors")),
    )
    op.create_table(
        "page_preferences",
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_page_preferences")),
    )


def downgrade() -> None:
    op.drop_table("page_preferences")
    op.drop_table("left_colors")
    op.drop_column("projects", "color_slot")
