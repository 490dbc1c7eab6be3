"""Answers tell which models were to write them and did not answer; None is not known: the answer is older."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("answers", sa.Column("failed_models", sa.Text()))


def downgrade() -> None:
    op.drop_column("answers", "failed_models")
