"""BM25 with the extension pg_textsearch, if the database has it: the same terms, ranked by the server.

`search_3_texts` holds the terms of each chunk as words that PostgreSQL's plainest analysis leaves as they are, so that
they are those of questions and of every other index. Frequencies, spelling and what a filter leaves come from the
packed postings, which are written in any case.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from refdesk.index.lexical import K1, B
from refdesk.records import LexicalEntry

_PLAIN = re.compile(r"[a-z]+\Z")
PRESENT = "SELECT extversion FROM pg_extension WHERE extname = 'pg_textsearch'"
MOST_GONE = 1000  # chunks that are gone and still indexed, up to which as many more are asked for


def word(term: str) -> str:
    """A term as PostgreSQL takes it for one word, whatever it consists of.

    >>> word("harbour"), word("3.5")
    ('harbour', 'z332e35z')
    """
    return term if _PLAIN.match(term) else f"z{term.encode('utf-8', 'replace').hex()}z"


def table(number: int) -> str:
    return f"search_{number}_texts"


def make_texts(connection: Any, number: int) -> None:
    """Where the extension is there when the tables of an index are made; else nothing."""
    run = connection.exec_driver_sql
    if run(PRESENT).first() is None:
        return
    run(f"CREATE TABLE {table(number)} (chunk_id bigint PRIMARY KEY, terms text NOT NULL)")
    run(
        f"CREATE INDEX {table(number)}_bm25 ON {table(number)} USING bm25 (terms)"
        f" WITH (text_config = 'simple', k1 = {K1}, b = {B})"
    )


def is_made(connection: Any, number: int) -> bool:
    found: bool = connection.exec_driver_sql(f"SELECT to_regclass('{table(number)}') IS NOT NULL").scalar_one()
    return found


def text_rows(entries: Sequence[LexicalEntry]) -> Iterator[bytes]:
    for entry in entries:
        text = " ".join(map(word, entry.terms)).encode()
        yield struct.pack(">hiqi", 2, 8, entry.chunk_id, len(text)) + text


def ranking(number: int, terms: Sequence[str], most: int) -> tuple[str, tuple[str, str]]:
    """The statement that gives the best chunks with their scores, and its values."""
    asked = f"terms <@> to_bm25query(%s::text, '{table(number)}_bm25')"
    text = " ".join(map(word, terms))
    # The limit stands in the text: the extension reads from it how many are wanted.
    statement = f"SELECT chunk_id, -({asked}) FROM {table(number)} ORDER BY {asked} LIMIT {int(most)}"
    return statement, (text, text)


def scoring(number: int, terms: Sequence[str], chunk_ids: Sequence[int]) -> tuple[str, tuple[str, list[int]]]:
    """The statement that gives the scores of given chunks, and its values."""
    asked = f"terms <@> to_bm25query(%s::text, '{table(number)}_bm25')"
    statement = f"SELECT chunk_id, -({asked}) FROM {table(number)} WHERE chunk_id = ANY(%s)"
    return statement, (" ".join(map(word, terms)), list(map(int, chunk_ids)))
