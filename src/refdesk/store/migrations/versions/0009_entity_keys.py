"""Adds keys to entities, so that all spellings of a name are found, and keys and a supporting sentence to relations.

Both are derived from what is stored for each chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import sqlalchemy as sa
from alembic import op

from refdesk.entities import SHORT_FOR, acronyms, entity_key, key_of

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

AT_ONCE = 2_000
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")  # as in schema.py


def upgrade() -> None:
    connection = op.get_bind()
    if not sa.inspect(connection).has_table("entities"):  # of the weeks before 0.1.0: it is made when it is opened
        return
    op.add_column("entities", sa.Column("key", TEXT, nullable=False, server_default=""))
    for name in ("subject_key", "object_key"):
        op.add_column("relations", sa.Column(name, TEXT, nullable=False, server_default=""))
    op.add_column("relations", sa.Column("sentence", sa.Integer(), nullable=False, server_default="-1"))
    names = connection.scalars(sa.text("SELECT DISTINCT name FROM entities")).all()
    if changed := [{"of": name, "made": made} for name in names if (made := key_of(name))]:
        connection.execute(sa.text("UPDATE entities SET key = :made WHERE name = :of"), changed)
    op.drop_index("entities_by_name", "entities")
    op.create_index("entities_by_key", "entities", ["key"])
    for side in ("subject", "object"):
        op.drop_index(f"relations_by_{side}", "relations")
        op.create_index(f"relations_by_{side}", "relations", [f"{side}_key"])
    _read_relations(connection)


def _read_relations(connection: sa.Connection) -> None:
    """Nothing has written any before."""
    some = sa.text("SELECT id, text, details FROM chunks WHERE id > :last ORDER BY id LIMIT :most")
    columns = ("chunk_id", "place", "subject", "predicate", "object", "subject_key", "object_key", "sentence")
    insert = sa.text(f"INSERT INTO relations ({', '.join(columns)}) VALUES (:{', :'.join(columns)})")
    last = 0
    while rows := connection.execute(some, {"last": last, "most": AT_ONCE}).all():
        if found := [relation for row in rows for relation in _relations(*row)]:
            connection.execute(insert, found)
        last = rows[-1][0]


def _relations(chunk_id: int, text: str, details: bytes) -> Iterator[dict[str, Any]]:
    place = 0
    for number, (start, end, *_) in enumerate(orjson.loads(details)["sentences"] if "(" in text else ()):
        for short, long in acronyms(text[start:end]):
            yield {
                "chunk_id": chunk_id,
                "place": place,
                "subject": short,
                "predicate": SHORT_FOR,
                "object": long,
                "subject_key": entity_key(short),
                "object_key": entity_key(long),
                "sentence": number,
            }
            place += 1
