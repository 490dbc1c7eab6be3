"""Adds the names and relations that a model found in chunks; all are empty until requested."""

from __future__ import annotations

from alembic import op
from sqlalchemy import delete, insert, select

from refdesk.store.schema import extracted_chunks, extracted_names, extracted_relations, state

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    for table in (extracted_chunks, extracted_names, extracted_relations):
        table.create(connection, checkfirst=True)
    # Programs of the schema before go on: what they do not know of goes with its chunks, also where they move them.
    oldest = connection.execute(select(state.c.value).where(state.c.name == "compatible")).scalar()
    connection.execute(delete(state).where(state.c.name == "compatible"))
    connection.execute(insert(state).values(name="compatible", value=oldest or "0010"))
