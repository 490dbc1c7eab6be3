"""Documents are looked for by their names within a collection: before one is moved there, and before an upload."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("documents_by_name", "documents", ["collection", "name"])


def downgrade() -> None:
    op.drop_index("documents_by_name", "documents")
