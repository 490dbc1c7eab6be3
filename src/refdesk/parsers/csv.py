"""CSV and TSV: one table, its header row repeated, a page per 1,000 rows."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

from refdesk.errors import TooLarge
from refdesk.parsers.build import Builder, ParseOptions, guess_header_rows, is_number, tidy_rows
from refdesk.parsers.text import decode
from refdesk.types import Parsed

ROWS_PER_PAGE = 1000  # a page is what a citation opens: small enough to look through, few enough to list
DELIMITERS = ",;\t|"
NO_DELIMITER = "\x1f"  # a control character that texts do not hold: every line is one cell
SAMPLE = 1 << 16
MAX_COLUMNS = 16_384  # those of a spreadsheet; the header row is repeated on every page, so its width counts often


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Rows become lines "cell | cell"; the header row stands at the head of every page."""
    text = decode(data)
    if len(text) > options.max_characters:
        raise TooLarge(f"the text has {len(text):,} characters, over the limit of {options.max_characters:,}")
    delimiter = find_delimiter(text)
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    reader = csv.reader(io.StringIO(text.replace("\x00", ""), newline=""), delimiter=delimiter, skipinitialspace=True)
    rows = tidy_rows(list(reader))
    widest = max(map(len, rows), default=0)
    if widest > MAX_COLUMNS:
        raise TooLarge(f"a row of this file has {widest:,} columns; at most {MAX_COLUMNS:,} are read")
    builder = Builder()
    titles = _titles(rows)
    rows = tidy_rows(rows[len(titles) :])
    header_rows = guess_header_rows(rows) or _single_column_header(rows)
    header, body = rows[:header_rows], rows[header_rows:]
    for begin in range(0, max(1, len(body)), ROWS_PER_PAGE):
        part = body[begin : begin + ROWS_PER_PAGE]
        many = len(body) > ROWS_PER_PAGE
        builder.page(f"Rows {begin + 1:,}–{begin + len(part):,}" if many else "")
        if begin == 0:
            builder.block("text", "\n".join(titles))
        builder.table([*header, *part], header_rows=header_rows)
    return builder.build("tsv" if delimiter == "\t" else "csv", metadata={"rows": str(len(body))})


def find_delimiter(text: str) -> str:
    """The delimiter that cuts the first lines into the most equal rows; none when most lines have none.

    >>> find_delimiter("name;price\\nA, B;3\\n")
    ';'
    """
    sample = text[:SAMPLE]
    if len(text) > SAMPLE:
        sample = sample[: sample.rfind("\n") + 1] or sample
    best, best_score = NO_DELIMITER, 0.0
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row][:200]
        except csv.Error:
            continue
        usual = max(sorted(set(widths), reverse=True), key=widths.count, default=1)
        # How many rows agree, then how many columns: agreement matters more than a wide split.
        score = 0.0 if usual == 1 else widths.count(usual) / len(widths) + min(usual, 50) / 1000
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _titles(rows: list[list[str]]) -> list[str]:
    """Lines above the table that fill a single cell: "Sales 2024,,,"."""
    titles: list[str] = []
    for row, _ in pairwise(rows):
        if len(row) < 2 or not row[0] or any(row[1:]) or is_number(row[0]):
            break
        titles.append(row[0])
    return titles if len(titles) <= 3 and len(rows) - len(titles) >= 2 else []


def _single_column_header(rows: list[list[str]]) -> int:
    """A column of numbers under a word has a header too."""
    if len(rows) < 3 or len(rows[0]) != 1 or is_number(rows[0][0]):
        return 0
    return 1 if all(is_number(row[0]) for row in rows[1:20]) else 0
