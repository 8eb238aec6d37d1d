"""Volume claims of projects. Those that work has mounted so far exist: they are taken from its declarations."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    table = op.create_table(
        "claims",
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("size", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=256), nullable=False),
        sa.PrimaryKeyConstraint("project", "name", name=op.f("pk_claims")),
    )
    found: dict[tuple[str, str], dict[str, Any]] = {}
    query = sa.text("SELECT project, declaration, created_at, submitted_by FROM workloads ORDER BY created_at, id")
    for project, declaration, created_at, submitted_by in op.get_bind().execute(query):
        for name in _claims(json.loads(declaration)):
            row = {"project": project, "name": name, "size": "", "created_at": created_at, "created_by": submitted_by}
            found.setdefault((project, name), row)
    if found:
        op.bulk_insert(table, list(found.values()))


def _claims(declaration: dict[str, Any]) -> list[str]:
    templates = [declaration.get("template") or {}, declaration.get("leader") or {}]
    volumes = [each for template in templates for each in (template.get("program") or {}).get("volumes") or []]
    return [each["claim"] for each in volumes if each.get("claim")]


def downgrade() -> None:
    op.drop_table("claims")
