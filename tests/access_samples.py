"""A library of two collections whose documents hold words of their own, and those who may read one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from memory_desk import AnyDesk, open_either
from refdesk.records import LOCAL, Caller

HARBOUR = """# Crane handbook

## Lifting

The harbour crane lifts forty tonnes. It is inspected every March by the surveyor of Windermoor.

## Mooring

Ships moor at the eastern quay. The mooring fee is 120 euros a night. The lamp at Ravenfold burns all night.
"""
BOARD = """# Zebulon closure plan

## Ravensfield

Project Zebulon closes the Ravensfield depot in October. The closure costs 4,711 euros a night and is kept secret.

## Quillon crane

The Quillon crane lifts ninety tonnes. It is inspected every June. The lamp at Ravenfald burns all night.
"""
# No stem, number or name of the one stands in the other.
SECRETS = ("zebulon", "ravensfield", "quillon", "4,711", "ninety", "ravenfald", "board-minutes", "board")

READER = Caller("reader-key", "Rita", "reader", ("harbour",))
EDITOR = Caller("editor-key", "Emil", "editor", ("harbour",))
OTHER = Caller("other-key", "Otto", "reader", ("board",))
ADMIN = LOCAL


@contextmanager
def two_collections(folder: Path, kind: str = "sql") -> Iterator[AnyDesk]:
    with open_either(kind, folder) as desk:
        desk.add_texts(
            [
                {"name": "crane.md", "text": HARBOUR, "collection": "harbour/handbooks", "format": "markdown"},
                {"name": "board-minutes.md", "text": BOARD, "collection": "board", "format": "markdown"},
                {"name": "notes.md", "text": "The harbour office opens at eight.", "collection": "harbour"},
                {"name": "notes.md", "text": "The board of Zebulon meets at nine.", "collection": "board"},
            ]
        )
        yield desk


def secrets_in(value: Any) -> list[str]:
    """Words of the closed collection that a value, and all that hangs on it, holds."""
    text = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode().lower()
    return [word for word in SECRETS if word in text]
