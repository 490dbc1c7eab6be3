"""The first library: documents, pages, chunks, vectors and the list of dropped chunks."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_documents()
    _create_content()


def _create_documents() -> None:
    op.create_table(
        "state",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("key", KEY, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("collection", sa.Text, nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("status", sa.String(12), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("format", sa.String(20), nullable=False),
        sa.Column("language", sa.String(12), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("modified", sa.Float, nullable=False),
        sa.Column("page_count", sa.Integer, nullable=False),
        sa.Column("chunk_count", sa.Integer, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("parent_id", sa.String(32)),
        sa.Column("date", sa.String(10), nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("notes", sa.Text, nullable=False),
        sa.Column("owner", sa.String(40), nullable=False),
        sa.Column("first_chunk", sa.BigInteger, nullable=False),
        sa.Column("last_chunk", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_index("documents_by_place", "documents", ["collection", "source", "name"])
    op.create_index("documents_by_hash", "documents", ["content_hash"])
    op.create_index("documents_by_parent", "documents", ["parent_id"])
    op.create_index("documents_by_language", "documents", ["status", "language"])


def _create_content() -> None:
    op.create_table(
        "pages",
        sa.Column("document_key", KEY, sa.ForeignKey("documents.key", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("end", sa.Integer, nullable=False),
        sa.Column("width", sa.Float, nullable=False),
        sa.Column("height", sa.Float, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("ocr", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("words", sa.LargeBinary),
        sa.PrimaryKeyConstraint("document_key", "number"),
    )
    op.create_table(
        "chunks",
        sa.Column("id", KEY, primary_key=True, autoincrement=False),
        sa.Column("document_key", KEY, sa.ForeignKey("documents.key", ondelete="CASCADE"), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("first_page", sa.Integer, nullable=False),
        sa.Column("last_page", sa.Integer, nullable=False),
        sa.Column("token_count", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("details", sa.LargeBinary, nullable=False),
    )
    op.create_index("chunks_by_document", "chunks", ["document_key", "sequence"])
    op.create_index("chunks_by_kind", "chunks", ["kind"])
    op.create_table(
        "vectors",
        sa.Column("space", sa.String(80), nullable=False),
        sa.Column("chunk_id", KEY, sa.ForeignKey("chunks.id", ondelete="CASCADE"), nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("sentences", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("space", "chunk_id"),
    )
    # A cascade from chunks looks vectors up by chunk alone.
    op.create_index("vectors_by_chunk", "vectors", ["chunk_id"])
    op.create_table(
        "dropped",
        sa.Column("first_chunk", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last_chunk", sa.BigInteger, nullable=False),
        sa.Column("purged", sa.Integer, nullable=False),
    )


def downgrade() -> None:
    for table in ("dropped", "vectors", "chunks", "pages", "documents", "state"):
        op.drop_table(table)
