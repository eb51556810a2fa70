"""What Alembic runs: the missing revisions, on the connection and in the transaction of whoever asked."""

from __future__ import annotations

from alembic import context

settings = context.config.attributes
context.configure(
    connection=settings["connection"],
    version_table=settings["version_table"],
    version_table_schema=settings["schema"],
)
with context.begin_transaction():
    context.run_migrations()
