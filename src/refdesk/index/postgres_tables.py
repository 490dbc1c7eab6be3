"""The tables of the PostgreSQL index: vectors, packed postings, merging of segments, the graph, pg_textsearch.

Statements in here run within a transaction of the library's one writer.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.errors import LibraryError
from refdesk.index.lexical import K1, B
from refdesk.records import LexicalEntry
from refdesk.text import VERSION

CONNECTIVITY, EXPANSION_ADD = 16, 64  # of the graph
MERGED_AT = 8  # segments of a size
LEAST_MEMORY_MB, MOST_MEMORY_MB = 64, 2048  # of the server while it makes a graph, where it allows itself no more
DROP_PATIENCE_S = 1.0  # for the lock that takes an old graph away
GRAPH_BYTES = 500  # beside the vector of a chunk, while its graph is made

# A graph of vectorscale, where a database has that extension, holds two bits for each number of a vector. What it
# finds is compared again with the vectors themselves, which the extension cannot do itself: it looks for a column of
# the type that it indexes, and the index is over an expression.
VECTORSCALE_PRESENT = "SELECT extversion FROM pg_extension WHERE extname = 'vectorscale'"
MOST_DIMENSIONS = 2000  # that it takes
DISKANN_BYTES = 4000  # for a chunk, while its graph is made; with less, what was made is read again and again
COMPARED, COMPARED_SHARE = 200, 4  # chunks compared again, and at least so many for each that is wanted

POSTING = np.dtype([("id", "<u4"), ("count", "u1"), ("length", "u1")])  # `length` is a place in LENGTHS
# Lengths as one byte keeps them: as tantivy does, so that scores are the same.
LENGTHS = np.array(sorted({*range(40), *(24 + (m << s) for s in range(1, 27) for m in range(8, 16))}), np.int64)
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), struct.pack(">h", -1)


def make_list(connection: Any) -> None:
    """The table of the indexes; programs that did not know of `graph_until` made it without."""
    run = connection.exec_driver_sql
    run(
        "CREATE TABLE IF NOT EXISTS search_indexes (number int PRIMARY KEY, terms int NOT NULL, dimensions int"
        " NOT NULL, chunks bigint NOT NULL, length bigint NOT NULL, in_graph bigint NOT NULL,"
        " graph_until bigint NOT NULL DEFAULT 0)"
    )
    asked = "SELECT 1 FROM pg_attribute WHERE attrelid = 'search_indexes'::regclass AND attname = 'graph_until'"
    if run(asked).first() is None:
        run("ALTER TABLE search_indexes ADD COLUMN IF NOT EXISTS graph_until bigint NOT NULL DEFAULT 0")


def graph_condition(until: int) -> str:
    """As the graph's own condition, so that the planner knows that it may be used."""
    return f"(in_graph OR chunk_id <= {until})" if until else "in_graph"


def tail_condition(until: int) -> str:
    return f"NOT in_graph AND chunk_id > {until}" if until else "NOT in_graph"


def graph_kind(number: str, until: str) -> str:
    """An expression for how a graph was made, as the catalogue of the server says it: all processes see the same."""
    return (
        "(SELECT m.amname FROM pg_class c JOIN pg_am m ON m.oid = c.relam"
        f" WHERE c.oid = to_regclass('search_' || {number} || '_chunks_graph_' || {until}))"
    )


def nearest_by_diskann(table: str, condition: str, dimensions: int, most: int) -> str:
    """The nearest chunks as `nearest_by_distance` gives them, among more that the graph finds; the same values."""
    # The limits stand in the text: a plan for any limit would not take the graph.
    return (
        f"(SELECT chunk_id, distance FROM (SELECT chunk_id, vector <=> %s::halfvec AS distance FROM {table}"
        f" WHERE {condition} ORDER BY vector::vector({dimensions}) <=> %s::vector"
        f" LIMIT {max(COMPARED, COMPARED_SHARE * int(most))}) AS found ORDER BY distance LIMIT {int(most)})"
    )


def nearest_by_distance(table: str, condition: str, most: int) -> str:
    """By the graph of pgvector, or by a scan; its values are the vector, those of the condition, the vector."""
    return (
        f"(SELECT chunk_id, vector <=> %s::halfvec AS distance FROM {table}"
        f" WHERE {condition} ORDER BY vector <=> %s::halfvec LIMIT {int(most)})"
    )


def within(graph: str) -> str:
    """The condition that a chunk is allowed. The planner guesses that ranges leave a two-hundredth, of which it would
    scan every row rather than take a graph of vectorscale, and that what it cannot look into leaves half."""
    condition = "%s::int8multirange @> chunk_id"
    return f"coalesce({condition}, false)" if graph == "diskann" else condition


def make_graph(connection: Any, number: int, count: int) -> None:
    """A graph over all that is there; whoever searches meanwhile uses the one before."""
    run, table = connection.exec_driver_sql, f"search_{number}_chunks"
    (until,) = run(f"SELECT coalesce(max(chunk_id), 0) FROM {table}").one()
    (dimensions,) = run(f"SELECT dimensions FROM search_indexes WHERE number = {number}").one()
    is_diskann = dimensions <= MOST_DIMENSIONS and run(VECTORSCALE_PRESENT).first() is not None
    # What does not fit into this memory is inserted row by row, which takes ten times as long.
    needed = count * (DISKANN_BYTES if is_diskann else 2 * dimensions + GRAPH_BYTES)
    wanted = min(MOST_MEMORY_MB, max(LEAST_MEMORY_MB, needed >> 20))
    (given,) = run("SELECT setting::bigint >> 10 FROM pg_settings WHERE name = 'maintenance_work_mem'").one()
    run(f"SET LOCAL maintenance_work_mem = '{max(given, wanted)}MB'")
    if is_diskann:
        kind = f"diskann ((vector::vector({dimensions})) vector_cosine_ops)"
    else:
        kind = f"hnsw (vector halfvec_cosine_ops) WITH (m = {CONNECTIVITY}, ef_construction = {EXPANSION_ADD})"
    run(f"CREATE INDEX {_graph_name(number, until)} ON {table} USING {kind} WHERE {graph_condition(until)}")
    run(f"UPDATE search_indexes SET in_graph = chunks, graph_until = {until} WHERE number = {number}")


def drop_old_graphs(connection: Any, number: int) -> None:
    """All but the last that was made. Searches wait while one goes, which itself waits for those that read already: a
    copy of the database may do so for hours, so that it is left for the next time soon."""
    run = connection.exec_driver_sql
    found = run(
        f"SELECT i.relname, s.graph_until FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
        f" JOIN pg_am a ON a.oid = i.relam JOIN search_indexes s ON s.number = {number}"
        f" WHERE x.indrelid = to_regclass('search_{number}_chunks') AND a.amname IN ('hnsw', 'diskann')"
    ).all()
    old = [name for name, until in found if until and name != _graph_name(number, until)]
    if old:
        run(f"SET LOCAL lock_timeout = {int(1000 * DROP_PATIENCE_S)}")
        run(f"DROP INDEX {', '.join(old)}")


def _graph_name(number: int, until: int) -> str:
    return f"search_{number}_chunks_graph_{until}"


def make_tables(connection: Any, number: int, dimensions: int) -> None:
    run, name = connection.exec_driver_sql, f"search_{number}"
    run(f"CREATE TABLE {name}_segments (number serial PRIMARY KEY, chunks int NOT NULL)")
    run(
        f"CREATE TABLE {name}_chunks (chunk_id bigint PRIMARY KEY, length int NOT NULL,"
        f" vector halfvec({dimensions}) NOT NULL, in_graph boolean NOT NULL DEFAULT false)"
    )
    run(f"CREATE INDEX ON {name}_chunks (chunk_id) WHERE NOT in_graph")
    run(f"ALTER TABLE {name}_chunks ALTER vector SET STORAGE PLAIN")
    run(
        f'CREATE TABLE {name}_postings (term text COLLATE "C" NOT NULL, segment int NOT NULL, chunks int NOT NULL,'
        f" packed bytea NOT NULL, PRIMARY KEY (term, segment))"
    )
    run(f"ALTER TABLE {name}_postings ALTER packed SET STORAGE EXTERNAL")  # numbers that nothing makes smaller
    run(f"CREATE INDEX ON {name}_postings (segment)")
    make_texts(connection, number)
    run(f"INSERT INTO search_indexes VALUES ({number}, {VERSION}, {dimensions}, 0, 0, 0)")


def drop_tables(connection: Any, number: int) -> None:
    for name in ("segments", "chunks", "postings", "texts"):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS search_{number}_{name}")
    connection.exec_driver_sql(f"DELETE FROM search_indexes WHERE number = {number}")


# Rows as COPY takes them in PostgreSQL's own binary form: a thousand a millisecond.


def copy_rows(connection: Any, target: str, rows: Iterable[bytes]) -> None:
    dialect = connection.dialect
    try:
        cursor = connection.connection.driver_connection.cursor()
        with cursor, cursor.copy(f"COPY {target} FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(_COPY_HEAD)
            copy.write(b"".join(rows))
            copy.write(_COPY_END)
    except dialect.loaded_dbapi.Error as error:
        raise LibraryError(f"the search tables cannot be written: {error}") from error


def chunk_rows(ids: Sequence[int], lengths: Sequence[int], vectors: Mapping[int, NDArray[np.float32]]) -> bytes:
    matrix = np.array([vectors[i] for i in ids], dtype=">f2")
    dimensions = matrix.shape[1]
    sizes = [("columns", ">i2"), ("id_size", ">i4"), ("id", ">i8"), ("length_size", ">i4"), ("length", ">i4")]
    halves = [("size", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f2", (dimensions,))]
    rows = np.zeros(len(ids), dtype=np.dtype([*sizes, *halves]))
    rows["columns"], rows["id_size"], rows["length_size"], rows["size"] = 3, 8, 4, 4 + 2 * dimensions
    rows["id"], rows["length"], rows["dimensions"], rows["vector"] = ids, lengths, dimensions, matrix
    return rows.tobytes()


def posting_row(term: str, segment: int, packed: bytes) -> bytes:
    word, count = term.encode("utf-8", "replace").replace(b"\0", b""), len(packed) // POSTING.itemsize
    return b"".join(
        (
            struct.pack(">hi", 4, len(word)),
            word,
            struct.pack(">iiiii", 4, segment, 4, count, len(packed)),
            packed,
        )
    )


def pack_postings(entries: Sequence[LexicalEntry]) -> dict[str, bytes]:
    """By term: the chunks that hold it, in their order, with how often, and how long each is."""
    lengths = np.searchsorted(LENGTHS, [len(entry.terms) for entry in entries], side="right") - 1
    numbers: dict[str, int] = {}
    which: list[int] = []
    counts: list[int] = []
    sizes: list[int] = []
    for entry in entries:
        counted = Counter(entry.terms)
        which += [numbers.setdefault(term, len(numbers)) for term in counted]
        counts += counted.values()
        sizes.append(len(counted))
    postings = np.zeros(len(which), POSTING)
    postings["id"] = np.repeat(np.array([entry.chunk_id for entry in entries], np.uint32), sizes)
    postings["count"] = np.minimum(counts, 255)
    postings["length"] = np.repeat(lengths, sizes)
    terms = np.array(which, np.int64)
    packed = postings[np.argsort(terms, kind="stable")].tobytes()
    ends = (np.cumsum(np.bincount(terms, minlength=len(numbers))) * POSTING.itemsize).tolist()
    return {term: packed[begin:end] for term, begin, end in zip(numbers, [0, *ends], ends, strict=False)}


def merge_segments(connection: Any, number: int) -> None:
    """Joins segments, smallest first, while there are eight of a size: a term has a few rows at most."""
    run = connection.exec_driver_sql
    while True:
        sizes: dict[int, list[tuple[int, int]]] = {}
        for segment, chunks in run(f"SELECT number, chunks FROM search_{number}_segments").all():
            sizes.setdefault(int(math.log(max(1, chunks), MERGED_AT)), []).append((segment, chunks))
        many = next((sizes[size] for size in sorted(sizes) if len(sizes[size]) >= MERGED_AT), None)
        if many is None:
            return
        old = ",".join(str(segment) for segment, _ in many)
        chunks = sum(count for _, count in many)
        new = run(f"INSERT INTO search_{number}_segments (chunks) VALUES ({chunks}) RETURNING number").scalar_one()
        run(
            f"INSERT INTO search_{number}_postings SELECT term, {new}, sum(chunks),"
            f" string_agg(packed, ''::bytea ORDER BY segment) FROM search_{number}_postings"
            f" WHERE segment IN ({old}) GROUP BY term"
        )
        run(f"DELETE FROM search_{number}_postings WHERE segment IN ({old})")
        run(f"DELETE FROM search_{number}_segments WHERE number IN ({old})")


def rewrite_postings(connection: Any, number: int, dropped: NDArray[np.int64]) -> None:
    """All segments in one, without the chunks that are gone; who searches meanwhile reads the old ones."""
    run = connection.exec_driver_sql
    (last,) = run(f"SELECT coalesce(max(number), 0) FROM search_{number}_segments").one()
    left = run(f"SELECT chunks FROM search_indexes WHERE number = {number}").scalar_one()
    new = run(f"INSERT INTO search_{number}_segments (chunks) VALUES ({left}) RETURNING number").scalar_one()
    target = f"search_{number}_postings (term, segment, chunks, packed)"
    run(
        f"DECLARE every_posting NO SCROLL CURSOR FOR SELECT term, string_agg(packed, ''::bytea ORDER BY segment)"
        f" FROM search_{number}_postings WHERE segment <= {last} GROUP BY term"
    )
    while rows := run("FETCH 5000 FROM every_posting").all():
        copy_rows(connection, target, _kept_rows(rows, new, dropped))
    run("CLOSE every_posting")
    run(f"DELETE FROM search_{number}_postings WHERE segment <= {last}")
    run(f"DELETE FROM search_{number}_segments WHERE number <= {last}")


def _kept_rows(rows: Iterable[Any], segment: int, dropped: NDArray[np.int64]) -> Iterator[bytes]:
    for term, packed in rows:
        postings = np.frombuffer(packed, POSTING)
        kept = postings[~lie_within(postings["id"].astype(np.int64), dropped)]
        if len(kept):
            yield posting_row(term, segment, kept.tobytes())


def lie_within(ids: NDArray[Any], ranges: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the ids lie in one of the ranges."""
    if not len(ranges):
        return np.zeros(len(ids), dtype=np.bool_)
    place = np.searchsorted(ranges[:, 0], ids, side="right") - 1
    is_within: NDArray[np.bool_] = (place >= 0) & (ids <= ranges[np.maximum(place, 0), 1])
    return is_within


# --- BM25 by pg_textsearch --------------------------------------------------------------------------------------------

# BM25 with the extension pg_textsearch, if the database has it: the same terms, ranked by the server.
#
# `search_3_texts` holds the terms of each chunk as words that PostgreSQL's plainest analysis leaves as they are, so
# that they are those of questions and of every other index. Frequencies, spelling and what a filter leaves come from
# the packed postings, which are written in any case.

_PLAIN = re.compile(r"[a-z]+\Z")
TEXTSEARCH_PRESENT = "SELECT extversion FROM pg_extension WHERE extname = 'pg_textsearch'"
MOST_GONE = 1000  # chunks that are gone and still indexed, up to which as many more are asked for


def plain_word(term: str) -> str:
    """A term as PostgreSQL takes it for one plain_word, whatever it consists of.

    >>> plain_word("harbour"), plain_word("3.5")
    ('harbour', 'z332e35z')
    """
    return term if _PLAIN.match(term) else f"z{term.encode('utf-8', 'replace').hex()}z"


def texts_table(number: int) -> str:
    return f"search_{number}_texts"


def make_texts(connection: Any, number: int) -> None:
    """Where the extension is there when the tables of an index are made; else nothing."""
    run = connection.exec_driver_sql
    if run(TEXTSEARCH_PRESENT).first() is None:
        return
    run(f"CREATE TABLE {texts_table(number)} (chunk_id bigint PRIMARY KEY, terms text NOT NULL)")
    run(
        f"CREATE INDEX {texts_table(number)}_bm25 ON {texts_table(number)} USING bm25 (terms)"
        f" WITH (text_config = 'simple', k1 = {K1}, b = {B})"
    )


def has_texts_table(connection: Any, number: int) -> bool:
    found: bool = connection.exec_driver_sql(f"SELECT to_regclass('{texts_table(number)}') IS NOT NULL").scalar_one()
    return found


def text_rows(entries: Sequence[LexicalEntry]) -> Iterator[bytes]:
    for entry in entries:
        text = " ".join(map(plain_word, entry.terms)).encode()
        yield struct.pack(">hiqi", 2, 8, entry.chunk_id, len(text)) + text


def text_ranking(number: int, terms: Sequence[str], most: int) -> tuple[str, tuple[str, str]]:
    """The statement that gives the best chunks with their scores, and its values."""
    asked = f"terms <@> to_bm25query(%s::text, '{texts_table(number)}_bm25')"
    text = " ".join(map(plain_word, terms))
    # The limit stands in the text: the extension reads from it how many are wanted.
    statement = f"SELECT chunk_id, -({asked}) FROM {texts_table(number)} ORDER BY {asked} LIMIT {int(most)}"
    return statement, (text, text)


def text_scoring(number: int, terms: Sequence[str], chunk_ids: Sequence[int]) -> tuple[str, tuple[str, list[int]]]:
    """The statement that gives the scores of given chunks, and its values."""
    asked = f"terms <@> to_bm25query(%s::text, '{texts_table(number)}_bm25')"
    statement = f"SELECT chunk_id, -({asked}) FROM {texts_table(number)} WHERE chunk_id = ANY(%s)"
    return statement, (" ".join(map(plain_word, terms)), list(map(int, chunk_ids)))
