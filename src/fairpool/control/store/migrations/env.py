"""Started by Alembic: runs the steps on the connection that was handed over, in one transaction."""

from __future__ import annotations

from alembic import context

from fairpool.control.store.sqlite import driver_of
from fairpool.control.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    if connection.dialect.name == "sqlite" and not driver_of(connection).in_transaction:
        # The driver begins none, so that each change of a table would be committed by itself.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    context.run_migrations()
