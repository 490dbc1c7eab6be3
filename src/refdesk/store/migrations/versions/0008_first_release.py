"""The tables of 0.1.0. New libraries are created from `schema.py`; later migrations upgrade older ones."""

revision = "0008"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is older."""
