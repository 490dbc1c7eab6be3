"""A moved document remembers where it was added, so that adding its folder there again does not add it twice."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("documents", sa.Column("added_to", sa.Text, nullable=False, server_default=""))
    op.create_index("documents_by_first_place", "documents", ["added_to", "source"])


def downgrade() -> None:
    op.drop_index("documents_by_first_place", "documents")
    op.drop_column("documents", "added_to")
