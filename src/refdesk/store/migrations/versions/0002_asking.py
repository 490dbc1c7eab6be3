"""What asking remembers: settings, conversations, answers with their traces, the cache of answers."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "settings",
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    _create_conversations()
    _create_answers()


def _create_conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(80), primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("owner", sa.String(80), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("summarised_until", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
    )
    op.create_index("conversations_by_owner", "conversations", ["owner", "updated_at"])
    op.create_table(
        "messages",
        sa.Column("key", KEY, primary_key=True, autoincrement=True),
        sa.Column(
            "conversation_id", sa.String(80), sa.ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("role", sa.String(12), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("answer_id", sa.String(40), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_index("messages_by_conversation", "messages", ["conversation_id", "key"])


def _create_answers() -> None:
    op.create_table(
        "answers",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("conversation_id", sa.String(80), nullable=False),
        sa.Column("owner", sa.String(80), nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=False),
        sa.Column("trace", sa.LargeBinary, nullable=False),
        sa.Column("collections", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_index("answers_by_time", "answers", ["created_at"])
    op.create_index("answers_by_conversation", "answers", ["conversation_id"])
    op.create_table(
        "answer_cache",
        sa.Column("key", KEY, primary_key=True, autoincrement=True),
        sa.Column("realm", sa.String(80), nullable=False),
        sa.Column("digest", sa.String(32), nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("answer", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("answer_cache_by_question", "answer_cache", ["realm", "digest"], unique=True)
    op.create_index("answer_cache_by_generation", "answer_cache", ["generation"])
    op.create_index("answer_cache_by_time", "answer_cache", ["created_at"])


def downgrade() -> None:
    for table in ("answer_cache", "answers", "messages", "conversations", "settings"):
        op.drop_table(table)
