"""Numbers for caches, and ids of clusters in node pools and departments.

The numbers say whether what is cached of the organization and of a cluster's nodes is still so. The cluster of a node
pool or department was stored as it was given and meant nothing; now it is an id, or null for all clusters.
"""

from __future__ import annotations

import json

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
    for table in ("node_pools", "departments"):
        _resolve_clusters(table)


def _resolve_clusters(table: str) -> None:
    connection = op.get_bind()
    ids = {key: row.id for row in connection.execute(sa.text("SELECT id, name FROM clusters")) for key in row}
    for name, text in connection.execute(sa.text(f"SELECT name, document FROM {table}")).all():
        document = json.loads(text)
        if document.get("clusterId") is not None:
            document["clusterId"] = ids.get(document["clusterId"])
            values = {"name": name, "document": json.dumps(document, separators=(",", ":"))}
            connection.execute(sa.text(f"UPDATE {table} SET document = :document WHERE name = :name"), values)


def downgrade() -> None:
    op.drop_column("clusters", "nodes_version")
    op.drop_column("revision", "organization")
