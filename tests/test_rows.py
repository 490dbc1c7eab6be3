"""A row of a table is read with the names of its columns, where the header names them."""

from __future__ import annotations

import pytest

from evidence_samples import chunk
from refdesk.ask.evidence.rows import named_row, table_header


@pytest.mark.parametrize(
    ("rows", "read"),
    [
        (["item | euros", "ink | 9"], "item: ink | euros: 9"),
        (["Prices in 2026", "item | euros", "ink | 9"], "item: ink | euros: 9"),
        (["item | euros", "ink | "], "item: ink"),
        (["item | euros | weight", "ink | 9"], "ink | 9"),
        (["2024 | 2025", "7 | 9"], "7 | 9"),
        ([" | euros", "ink | 9"], "ink | euros: 9"),
        (
            ["item | code | price |  | kept in", "item | code | net | gross | kept in", "ink | I-1 | 9 | 11 | Kiel"],
            "item: ink | code: I-1 | price net: 9 | price gross: 11 | kept in: Kiel",
        ),
        (
            ["item | code |  | kept in", "item | code | net | kept in", "ink | I-1 | 9 | Kiel"],
            "item: ink | code: I-1 | net: 9 | kept in: Kiel",
        ),
        (["item | code | made in", "ink | I-1 | Kiel", "ink | I-2 | Kiel"], "item: ink | code: I-2 | made in: Kiel"),
    ],
    ids=[
        "named",
        "caption",
        "empty_cell",
        "other_width",
        "no_names",
        "no_first_name",
        "two_heads",
        "blank_above",
        "alike",
    ],
)
def test_named_row(rows: list[str], read: str) -> None:
    table = chunk(rows, kind="table")
    assert named_row(table, len(rows) - 1) == read


def test_headers_and_sentences_stay_as_they_are() -> None:
    table = chunk(["item | euros", "ink | 9"], kind="table")
    assert named_row(table, 0) == "item | euros"
    assert table_header(table) == slice(0, 1)
    assert named_row(chunk(["Ink is 9 euros."]), 0) == "Ink is 9 euros."
