"""Questions that ended in an error are kept too: the code of what ended them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("answers", sa.Column("error", sa.String(40), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("answers", "error")
