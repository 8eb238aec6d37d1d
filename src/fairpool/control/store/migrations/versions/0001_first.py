"""The first shape of the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "access_rules",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("subject_id", sa.String(length=256), nullable=False),
        sa.Column("subject_type", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("scope_type", sa.String(length=16), nullable=False),
        sa.Column("scope_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=256), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_rules")),
    )
    op.create_index(op.f("ix_access_rules_subject_id"), "access_rules", ["subject_id"], unique=False)
    op.create_table(
        "applications",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_applications")),
        sa.UniqueConstraint("name", name=op.f("uq_applications_name")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.String(length=256), nullable=False),
        sa.Column("subject_type", sa.String(length=16), nullable=False),
        sa.Column("source_ip", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("http_method", sa.String(length=16), nullable=False),
        sa.Column("url", sa.String(length=2048), nullable=False),
        sa.Column("entity_type", sa.String(length=32), nullable=False),
        sa.Column("entity_name", sa.String(length=256), nullable=False),
        sa.Column("entity_id", sa.String(length=256), nullable=False),
        sa.Column("result", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)
    op.create_table(
        "changes",
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("noun", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=True),
        sa.Column("verb", sa.String(length=32), nullable=False),
        sa.Column("declared", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_changes")),
    )
    op.create_table(
        "clusters",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("domain", sa.String(length=256), nullable=False),
        sa.Column("version", sa.String(length=256), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("report_token", sa.BigInteger(), nullable=True),
        sa.Column("report_number", sa.BigInteger(), nullable=False),
        sa.Column("events_through", sa.BigInteger(), nullable=False),
        sa.Column("unsure", sa.Boolean(), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
        sa.UniqueConstraint("name", name=op.f("uq_clusters_name")),
    )
    op.create_table(
        "departments",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_departments")),
    )
    op.create_table(
        "events",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("workload", sa.String(length=64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "number", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_workload"), "events", ["workload"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("caller", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_created_at"), "idempotency", ["created_at"], unique=False)
    op.create_table(
        "node_marks",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("node", sa.String(length=256), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "node", name=op.f("pk_node_marks")),
    )
    op.create_table(
        "node_pools",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_node_pools")),
    )
    op.create_table(
        "nodes",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name=op.f("pk_nodes")),
    )
    op.create_table(
        "pods",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("workload", sa.String(length=64), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pods")),
    )
    op.create_index(op.f("ix_pods_workload"), "pods", ["workload"], unique=False)
    op.create_table(
        "projects",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("department", sa.String(length=64), nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=256), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )
    op.create_index(op.f("ix_projects_department"), "projects", ["department"], unique=False)
    op.create_table(
        "queue_reports",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("pool", sa.String(length=64), nullable=False),
        sa.Column("queue", sa.String(length=128), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "pool", "queue", name=op.f("pk_queue_reports")),
    )
    op.create_table(
        "revision",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.Column("declared", sa.BigInteger(), nullable=False),
        sa.Column("oldest", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_revision")),
    )
    op.create_table(
        "tokens",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("family", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("subject_id", sa.String(length=64), nullable=False),
        sa.Column("subject_type", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_tokens")),
    )
    op.create_index(op.f("ix_tokens_family"), "tokens", ["family"], unique=False)
    op.create_index(op.f("ix_tokens_subject_id"), "tokens", ["subject_id"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("email", sa.String(length=256), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("must_change", sa.Boolean(), nullable=False),
        sa.Column("first_password", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("email", name=op.f("uq_users_email")),
    )
    op.create_table(
        "workloads",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("name_key", sa.String(length=128), nullable=True),
        sa.Column("project", sa.String(length=64), nullable=False),
        sa.Column("department", sa.String(length=64), nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("submitted_by", sa.String(length=256), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("requested_gpus_milli", sa.BigInteger(), nullable=False),
        sa.Column("want", sa.String(length=16), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("declaration", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("report", sa.Text(), nullable=True),
        sa.Column("allocated_gpus_milli", sa.BigInteger(), nullable=False),
        sa.Column("running_pods", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workloads")),
        sa.UniqueConstraint("name_key", name=op.f("uq_workloads_name_key")),
    )
    op.create_index("ix_workloads_created_at", "workloads", ["created_at"], unique=False)
    op.create_index("ix_workloads_name", "workloads", ["name"], unique=False)
    op.create_index("ix_workloads_phase", "workloads", ["phase"], unique=False)
    op.create_index("ix_workloads_project_created_at", "workloads", ["project", "created_at"], unique=False)
    # The first revision is 1, because a cluster that has read nothing asks what came after 0.
    op.execute("INSERT INTO revision (id, value, declared, oldest) VALUES (1, 1, 1, 0)")


def downgrade() -> None:
    op.drop_index("ix_workloads_project_created_at", table_name="workloads")
    op.drop_index("ix_workloads_phase", table_name="workloads")
    op.drop_index("ix_workloads_name", table_name="workloads")
    op.drop_index("ix_workloads_created_at", table_name="workloads")
    op.drop_table("workloads")
    op.drop_table("users")
    op.drop_index(op.f("ix_tokens_subject_id"), table_name="tokens")
    op.drop_index(op.f("ix_tokens_family"), table_name="tokens")
    op.drop_table("tokens")
    op.drop_table("revision")
    op.drop_table("queue_reports")
    op.drop_index(op.f("ix_projects_department"), table_name="projects")
    op.drop_table("projects")
    op.drop_index(op.f("ix_pods_workload"), table_name="pods")
    op.drop_table("pods")
    op.drop_table("nodes")
    op.drop_table("node_pools")
    op.drop_table("node_marks")
    op.drop_index(op.f("ix_idempotency_created_at"), table_name="idempotency")
    op.drop_table("idempotency")
    op.drop_index(op.f("ix_events_workload"), table_name="events")
    op.drop_table("events")
    op.drop_table("departments")
    op.drop_table("clusters")
    op.drop_table("changes")
    op.drop_index(op.f("ix_audit_at"), table_name="audit")
    op.drop_table("audit")
    op.drop_table("applications")
    op.drop_index(op.f("ix_access_rules_subject_id"), table_name="access_rules")
    op.drop_table("access_rules")
