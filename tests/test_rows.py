"""The rows that name the columns of a table are told from its other rows."""

from __future__ import annotations

import pytest

from evidence_samples import chunk
from refdesk.ask.wording import table_header


@pytest.mark.parametrize(
    ("rows", "stop"),
    [
        (["item | euros", "ink | 9"], 1),
        (["Prices in 2026", "item | euros", "ink | 9"], 2),
        (["item | code | price |  | kept in", "item | code | net | gross | kept in", "ink | I-1 | 9 | 11 | Kiel"], 2),
        (["Ink is 9 euros."], 0),
    ],
    ids=["one", "caption", "stacked", "no_table"],
)
def test_the_header_of_a_table(rows: list[str], stop: int) -> None:
    assert table_header(chunk(rows, kind="table")) == slice(0, stop)
