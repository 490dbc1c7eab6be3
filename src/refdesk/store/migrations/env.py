"""Alembic's entry: runs the migrations on the connection that `database.py` hands over."""

from alembic import context

from refdesk.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
