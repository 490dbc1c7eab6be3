"""The tables of 0.1.0. A new library is made from `schema.py`; migrations after this one bring older ones there."""

revision = "0008"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is older."""
