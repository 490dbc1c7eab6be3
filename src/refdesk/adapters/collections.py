"""What lies within a collection? The same rule as a condition in SQL and in Python: the collection itself and below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import false, func, or_


def lies_within(path: str, collections: Sequence[str]) -> bool:
    """`finance/2024` lies within `finance`; `finances` does not."""
    return any(path == one or path.startswith(f"{one}/") for one in collections)


def within(column: Any, collections: Sequence[str]) -> Any:
    """In one of these collections or below one; in none when there are none."""
    if not collections:
        return false()
    # One condition for all names of a length: SQLite takes a thousand in a row at most, and a key may have so many.
    by_length: dict[int, list[str]] = {}
    for collection in collections:
        by_length.setdefault(len(collection) + 1, []).append(f"{collection}/")
    # not LIKE, which ignores case in SQLite: "HR" must not admit "hr/salaries"
    below = (func.substr(column, 1, length).in_(names) for length, names in by_length.items())
    return or_(column.in_(collections), *below)
