"""Accounting: usage of pods, sums of hours, quotas over time, prices, reports."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def _text(name: str, length: int) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=length), nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _owner() -> tuple[sa.Column[str] | sa.Column[int], ...]:
    return (
        _text("project", 64),
        _number("project_number"),
        _text("department", 64),
        _number("department_number"),
        _text("submitted_by", 256),
        _text("kind", 16),
        _text("pool", 64),
    )


def upgrade() -> None:
    _create_spans()
    _create_sums()
    _create_prices()


def _create_spans() -> None:
    op.create_table(
        "usage_spans",
        _text("pod", 128),
        _text("cluster", 64),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        _text("workload", 64),
        _text("workload_name", 64),
        *_owner(),
        _text("node", 256),
        _text("gpu_type", 128),
        _number("gpus_milli"),
        _number("cpu_milli"),
        _number("memory_bytes"),
        _number("created_at"),
        _number("bound_at", nullable=True),
        _number("ended_at", nullable=True),
        _text("cause", 32),
        sa.Column("is_lost", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("pod", "cluster", "part", name=op.f("pk_usage_spans")),
    )
    op.create_index(op.f("ix_usage_spans_workload"), "usage_spans", ["workload"])
    op.create_index("ix_usage_spans_ended_at_created_at", "usage_spans", ["ended_at", "created_at"])
    is_open = sa.text("ended_at IS NULL")
    op.create_index(
        "ix_usage_spans_open", "usage_spans", ["cluster", "pod"], sqlite_where=is_open, postgresql_where=is_open
    )


def _create_sums() -> None:
    op.create_table(
        "usage_subjects",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        _text("cluster", 64),
        *_owner(),
        _text("gpu_type", 128),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_subjects")),
        sa.UniqueConstraint(
            *("project", "project_number", "department", "department_number", "submitted_by", "kind"),
            *("pool", "gpu_type", "cluster"),
            name="uq_usage_subjects_all",
        ),
    )
    for unit in ("hour", "day"):
        op.create_table(
            f"usage_{unit}s",
            sa.Column(unit, sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("subject", sa.Integer(), autoincrement=False, nullable=False),
            *map(_number, ("requested", "allocated", "lost", "used", "measured", "over_quota", "cpu", "memory")),
            sa.PrimaryKeyConstraint(unit, "subject", name=op.f(f"pk_usage_{unit}s")),
        )
    op.create_table(
        "usage_progress",
        sa.Column("id", sa.Integer(), nullable=False),
        _number("summed_until"),
        _number("spans_from"),
        _number("disturbed"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_progress")),
    )
    op.create_table(
        "quota_history",
        _text("project", 64),
        sa.Column("project_number", sa.BigInteger(), autoincrement=False, nullable=False),
        _text("pool", 64),
        sa.Column("from_at", sa.BigInteger(), autoincrement=False, nullable=False),
        _number("quota_milli"),
        sa.PrimaryKeyConstraint("project", "project_number", "pool", "from_at", name=op.f("pk_quota_history")),
    )


def _create_prices() -> None:
    op.create_table(
        "usage_prices",
        _text("id", 64),
        _text("resource", 16),
        _text("gpu_type", 128),
        _number("from_at"),
        _number("price_micro"),
        _number("created_at"),
        _text("created_by", 256),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_prices")),
        sa.UniqueConstraint("resource", "gpu_type", "from_at", name=op.f("uq_usage_prices_resource_gpu_type_from_at")),
    )
    op.create_table(
        "usage_reports",
        _text("id", 64),
        _text("name", 256),
        _text("owner", 64),
        sa.Column("document", sa.Text(), nullable=False),
        _text("status", 16),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        _number("created_at"),
        _text("created_by", 256),
        _number("updated_at"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage_reports")),
    )
    op.create_index(op.f("ix_usage_reports_owner"), "usage_reports", ["owner"])


def downgrade() -> None:
    for table in (
        *("usage_reports", "usage_prices", "quota_history", "usage_progress", "usage_days"),
        *("usage_hours", "usage_subjects", "usage_spans"),
    ):
        op.drop_table(table)
