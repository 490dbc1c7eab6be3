"""Adds summaries by a model and the tree above the chunks; both are empty until requested."""

from __future__ import annotations

from alembic import op

from refdesk.store.schema import tree_members, tree_nodes, written_summaries

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    for table in (written_summaries, tree_nodes, tree_members):
        table.create(connection, checkfirst=True)
