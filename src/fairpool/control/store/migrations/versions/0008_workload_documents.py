"""Workloads as columns and two documents, and names from the field.

Until now a row held five texts: the request, the declaration, fields that follow from it, the report, and the answer
made of all of them. The declaration now holds the first three, answers are rendered, and what filters look for has
columns: the status, addresses, and labels in a table of their own.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

RENAMED = (
    ("workloads", "want", "desired_state"),
    ("workloads", "gone_at", "deleted_at"),
    ("pods", "place", "pod_index"),
    ("pods", "seen_at", "created_at"),
)
ORDERS = (("created_at",), ("name",), ("phase", "created_at"), ("phase", "name"), ("project", "created_at"))
AT_ONCE = 500


def upgrade() -> None:
    _drop_indexes("there", "gone_at")
    for table, before, after in RENAMED:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {before} TO {after}")
    op.rename_table("node_marks", "node_overrides")
    op.create_table(
        "workload_labels",
        sa.Column("workload", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=320), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("workload", "key", name=op.f("pk_workload_labels")),
    )
    op.add_column("workloads", sa.Column("report_revision", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("workloads", sa.Column("status", sa.String(length=64), nullable=False, server_default=""))
    op.add_column("workloads", sa.Column("urls", sa.Text()))
    _each_row(("declaration", "facts", "request", "item"), _joined)
    for name in ("request", "facts", "item"):
        op.drop_column("workloads", name)
    _create_indexes("existing", "deleted_at")
    op.create_index(
        "ix_workloads_with_urls",
        "workloads",
        ["cluster"],
        sqlite_where=sa.text("urls IS NOT NULL"),
        postgresql_where=sa.text("urls IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_workloads_with_urls", table_name="workloads")
    _drop_indexes("existing", "deleted_at")
    for name in ("request", "facts", "item"):
        op.add_column("workloads", sa.Column(name, sa.Text(), nullable=False, server_default="{}"))
    columns = ("name", "kind", "project", "department", "cluster", "submitted_by", "phase", "status", "urls")
    _each_row(("declaration", *columns, "requested_gpus_milli", "desired_state", "revision"), _split)
    for name in ("report_revision", "status", "urls"):
        op.drop_column("workloads", name)
    op.drop_table("workload_labels")
    op.rename_table("node_overrides", "node_marks")
    for table, before, after in RENAMED:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {after} TO {before}")
    _create_indexes("there", "gone_at")


def _drop_indexes(word: str, deleted_at: str) -> None:
    op.drop_index(f"ix_workloads_{deleted_at}", table_name="workloads")
    for columns in ORDERS:
        op.drop_index(f"ix_workloads_{word}_{'_'.join(columns)}", table_name="workloads")


def _create_indexes(word: str, deleted_at: str) -> None:
    deleted, existing = sa.text(f"{deleted_at} IS NOT NULL"), sa.text(f"{deleted_at} IS NULL")
    name = f"ix_workloads_{deleted_at}"
    op.create_index(name, "workloads", [deleted_at], sqlite_where=deleted, postgresql_where=deleted)
    for columns in ORDERS:
        name = f"ix_workloads_{word}_{'_'.join(columns)}"
        op.create_index(name, "workloads", [*columns, "id"], sqlite_where=existing, postgresql_where=existing)


def _each_row(columns: tuple[str, ...], change: Any) -> None:
    connection = op.get_bind()
    query = sa.text(f"SELECT id, {', '.join(columns)} FROM workloads WHERE id > :after ORDER BY id LIMIT {AT_ONCE}")
    after = ""
    while rows := connection.execute(query, {"after": after}).mappings().all():
        for row in rows:
            values = change(row)
            changes = ", ".join(f"{name} = :{name}" for name in values)
            connection.execute(sa.text(f"UPDATE workloads SET {changes} WHERE id = :id"), {**values, "id": row["id"]})
        after = rows[-1]["id"]


def _joined(row: Any) -> dict[str, Any]:
    """The declaration with the request and what was noted beside it; status and addresses from the last answer."""
    facts, request, item = json.loads(row["facts"]), json.loads(row["request"]), json.loads(row["item"])
    labels = facts.get("labels") or {}
    for key, value in labels.items():
        values = {"workload": row["id"], "key": key, "value": value}
        op.get_bind().execute(sa.text("INSERT INTO workload_labels VALUES (:workload, :key, :value)"), values)
    declaration = {
        "workload": json.loads(row["declaration"]),
        "request": request.get("spec") or {},
        "command_line": request.get("commandLine") or "",
        "source": facts.get("source") or "Other",
        "labels": labels,
        "framework": facts.get("distributedFramework"),
        "addresses": facts.get("addresses") or [],
        "suspensions": facts.get("suspensions") or [],
    }
    return {
        "declaration": _text(declaration),
        "status": item.get("classicStatus") or item["phase"],
        "urls": " ".join(item.get("urls") or []) or None,
    }


def _split(row: Any) -> dict[str, Any]:
    """The five texts. The answer lacks what only the next report brings."""
    declaration = json.loads(row["declaration"])
    workload = declaration["workload"]
    shape, pods = workload["template"]["shape"], workload["pods"]
    image = workload["template"]["program"]["image"]
    facts = {
        "id": row["id"],
        "name": row["name"],
        "type": row["kind"],
        "projectId": row["project"].partition("/")[0],
        "projectName": row["project"].partition("/")[0],
        "departmentId": row["department"].partition("/")[0],
        "departmentName": row["department"].partition("/")[0],
        "clusterId": row["cluster"],
        "submittedBy": row["submitted_by"],
        "labels": declaration["labels"],
        "requestedPods": pods,
        "workloadRequestedResources": {
            "gpu": row["requested_gpus_milli"] / 1000,
            "cpu": shape["cpu_milli"] * pods / 1000,
            "memoryBytes": shape["memory_bytes"] * pods,
        },
        "images": [image] if image else [],
        "source": declaration["source"],
        "modelKind": workload["kind"],
        "addresses": declaration["addresses"],
        "suspensions": declaration["suspensions"],
    }
    if declaration["framework"]:
        facts["distributedFramework"] = declaration["framework"]
    desired = {"run": "Running", "stop": "Stopped", "delete": "Deleted"}[row["desired_state"]]
    item = facts | {"phase": row["phase"], "classicStatus": row["status"], "desiredPhase": desired}
    request = {
        "workloadId": row["id"],
        "createdBy": row["submitted_by"],
        "commandLine": declaration["command_line"],
        "spec": declaration["request"],
    }
    return {
        "declaration": _text(workload),
        "facts": _text(facts),
        "request": _text(request),
        "item": _text(item | {"urls": (row["urls"] or "").split(), "revision": row["revision"]}),
    }


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
