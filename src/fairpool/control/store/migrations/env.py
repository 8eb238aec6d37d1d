"""Started by Alembic: runs the steps on the connection that was handed over, in one transaction."""

from __future__ import annotations

from alembic import context

from fairpool.control.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
