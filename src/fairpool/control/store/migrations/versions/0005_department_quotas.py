"""A department that was never given a quota has none: it is owed what its projects are owed together.

Until now departments were made unlimited unless a quota was given, and what was said is not kept apart from what
was not. So every unlimited quota of a department counts as never set; who means unlimited says so again.
"""

from __future__ import annotations

import json
import time

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

UNLIMITED = -1
departments = sa.table("departments", sa.column("name"), sa.column("document"), sa.column("revision"))
counter = sa.table("revision", sa.column("id"), sa.column("value"), sa.column("declared"))
changes = sa.table(
    "changes",
    *(sa.column(name) for name in ("revision", "noun", "id", "project", "verb", "at")),
    sa.column("declared", sa.Boolean),
)


def upgrade() -> None:
    _replace_quotas(UNLIMITED, None)


def downgrade() -> None:
    _replace_quotas(None, UNLIMITED)


def _replace_quotas(before: int | None, after: int | None) -> None:
    connection = op.get_bind()
    for name, text in connection.execute(sa.select(departments.c.name, departments.c.document)).all():
        document = json.loads(text)
        owed = [pool.setdefault(noun, {}) for pool in document["resources"] for noun in ("gpu", "cpu", "memory")]
        changed = [each for each in owed if each.get("deserved", before) == before]
        for each in changed:
            each["deserved"] = after
        if changed:
            values = {"document": json.dumps(document, separators=(",", ":")), "revision": _next_revision(name)}
            connection.execute(sa.update(departments).where(departments.c.name == name).values(**values))


def _next_revision(department: str) -> int:
    """Clusters have read what was declared before: they must hear of this change too."""
    connection = op.get_bind()
    following = counter.c.value + 1
    connection.execute(sa.update(counter).where(counter.c.id == 1).values(value=following, declared=following))
    number = int(connection.execute(sa.select(counter.c.value).where(counter.c.id == 1)).scalar_one())
    row = {"revision": number, "noun": "department", "id": department, "project": None, "verb": "updated"}
    connection.execute(sa.insert(changes).values(**row, declared=True, at=time.time_ns() // 1_000_000))
    return number
