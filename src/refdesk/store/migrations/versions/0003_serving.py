"""What serving needs: keys, feedback, and the columns that analytics count."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COLUMNS = (
    ("total_ms", sa.Float()),
    ("stages", sa.Text()),
    ("cached", sa.String(12)),
    ("cost_usd", sa.Float()),
    ("route", sa.String(20)),
    ("is_answered", sa.Integer()),
    ("confidence", sa.String(12)),
    ("model", sa.Text()),
    ("level", sa.String(12)),
)


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("answers", sa.Column(name, kind))
    answer_collections = op.create_table(
        "answer_collections",
        sa.Column("answer_id", sa.String(40), sa.ForeignKey("answers.id", ondelete="CASCADE"), nullable=False),
        sa.Column("collection", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("answer_id", "collection"),
    )
    answers = sa.table("answers", sa.column("id"), sa.column("collections"))
    known = op.get_bind().execute(sa.select(answers.c.id, answers.c.collections)).all()
    rows = [{"answer_id": id, "collection": one} for id, packed in known for one in sorted(set(json.loads(packed)))]
    op.bulk_insert(answer_collections, rows)
    op.create_table(
        "keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("role", sa.String(12), nullable=False),
        sa.Column("collections", sa.Text),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("last_used", sa.String(32), nullable=False),
    )
    op.create_table(
        "feedback",
        sa.Column("answer_id", sa.String(40), sa.ForeignKey("answers.id", ondelete="CASCADE"), nullable=False),
        sa.Column("owner", sa.String(80), nullable=False),
        sa.Column("verdict", sa.String(12), nullable=False),
        sa.Column("correction", sa.Text, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("answer_id", "owner"),
    )


def downgrade() -> None:
    for table in ("feedback", "keys", "answer_collections"):
        op.drop_table(table)
    for name, _ in COLUMNS:
        op.drop_column("answers", name)
