"""The `Index` port in PostgreSQL: vectors by pgvector, BM25 over packed postings, written with the store's own rows.

An index has a number, as the folders of the local one do: `search_3_chunks` holds the vector and the length of every
chunk, `search_3_postings` the chunks of each term, packed into one value per term and segment. What is added makes a
new segment; when there are eight of a size they are joined into one. All of it is written in the transaction that makes
a document visible: whoever searches sees both or neither.
"""

from __future__ import annotations

import math
import struct
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.errors import IndexDamaged, LibraryError
from refdesk.index.lexical import K1, B, inverse_frequency, term_weights
from refdesk.ports import Embedder, Scored
from refdesk.records import LexicalEntry, LibraryState
from refdesk.store_ports import NO_VECTORS, ChunkStore, IndexContent
from refdesk.terms import VERSION
from refdesk.text import edit_distances
from refdesk.types import Range, Scope

EXACT_BELOW = 10_000  # chunks; a scan of so many takes as long as the graph
SCANNED_AT_MOST = 20_000  # chunks that a filter leaves; of more the graph finds them sooner
CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH = 16, 64, 160  # recall in benchmarks/results/postgres.json
# What a session is told when it begins; iterative scans go on until a filter has left enough.
SESSION = f"-c hnsw.ef_search={EXPANSION_SEARCH} -c hnsw.iterative_scan=relaxed_order -c hnsw.max_scan_tuples=100000"
MERGED_AT = 8  # segments of a size
DROPPED_LIMIT, DROPPED_LEAST = 0.2, 500  # share and number of deleted chunks at which postings are written anew
TAIL_LEAST, TAIL_SHARE = 4_000, 0.025  # vectors scanned beside the graph, and share of a large library
GROWN_AT_MOST = 0.1  # share of the chunks up to which a graph is let grow row by row
SCOPES_KEPT = 64  # sets of allowed chunk ids remembered for one generation
POSTINGS_KEPT = 32 << 20  # bytes of postings remembered for one generation
FREQUENCIES_KEPT = 20_000
RECOUNTED = 0.01  # share of the chunks that has to come or go before the most frequent language is looked for again
LAST_NUMBER = 2**32 - 1  # the greatest id that a posting can hold

Ids = NDArray[np.int64]
Rows = Callable[[str, Sequence[Any]], list[Any]]
POSTING = np.dtype([("id", "<u4"), ("count", "u1"), ("length", "u1")])  # `length` is a place in LENGTHS
_PACK = struct.Struct("<IBB").pack
# Lengths as one byte keeps them: as tantivy does, so that scores are the same.
LENGTHS = np.array(sorted({*range(40), *(24 + (m << s) for s in range(1, 27) for m in range(8, 16))}), np.int64)
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), struct.pack(">h", -1)


class PostgresIndex:
    """What one process sees of the tables that are searched."""

    tail_room = 0
    keeps_vectors = True

    def __init__(
        self,
        chunks: ChunkStore,
        embedder: Embedder,
        rows: Rows,
        begin: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._chunks, self._embedder, self._rows, self._begin = chunks, embedder, rows, begin
        self._lock = threading.Lock()
        self._state = LibraryState(generation=-1)
        self._corpus: tuple[int, float, int] = (0, 0.0, 0)  # chunks, their mean length, how many are in the graph
        self._dropped = self._unpurged = np.zeros((0, 2), np.int64)
        self._allowed: OrderedDict[Scope, Ids] = OrderedDict()
        self._frequencies: dict[tuple[str, Scope], int] = {}
        self._postings: OrderedDict[str, NDArray[Any]] = OrderedDict()
        self._kept_bytes = 0
        self._scored: tuple[tuple[str, ...], NDArray[np.float32]] | None = None  # of the last query
        self._words: tuple[tuple[int, int], list[str]] = ((-1, 0), [])  # number and last segment that were read
        self.languages: tuple[str, ...] = ()
        self._counted = 0
        self.exact_below, self.scanned_at_most = EXACT_BELOW, SCANNED_AT_MOST
        self.dropped_least, self.tail_least = DROPPED_LEAST, TAIL_LEAST
        with self._begin() as connection:
            connection.exec_driver_sql(
                "CREATE TABLE IF NOT EXISTS search_indexes (number int PRIMARY KEY, terms int NOT NULL, dimensions int"
                " NOT NULL, chunks bigint NOT NULL, length bigint NOT NULL, in_graph bigint NOT NULL)"
            )

    def refresh(self) -> LibraryState:
        state = self._chunks.state()
        if state == self._state:
            return state
        with self._lock:
            state = self._chunks.state()
            if state == self._state:
                return state  # another thread has been faster
            # What is dropped is asked first, as in `LocalIndex`.
            dropped, unpurged = _ranges(self._chunks.dropped()), _ranges(self._chunks.dropped(unpurged=True))
            asked = "SELECT chunks, length, in_graph FROM search_indexes WHERE number = %s"
            found = self._rows(asked, (state.lexical,))
            if not found and state.folded > 0:
                raise IndexDamaged(f"the search tables {state.lexical} are missing")
            count, length, in_graph = found[0] if found else (0, 0, 0)
            if abs(count - self._counted) > RECOUNTED * self._counted or self._chunks.spoken() != set(self.languages):
                self.languages, self._counted = self._chunks.languages(), count
            self._corpus = (count, length / max(1, count), in_graph)
            self._dropped, self._unpurged = dropped, unpurged
            self._allowed, self._frequencies = OrderedDict(), {}
            self._postings, self._kept_bytes, self._scored = OrderedDict(), 0, None
            self._state = state
        return state

    def _table(self, name: str) -> str:
        return f"search_{self._state.lexical}_{name}"

    # searching

    def lexical(self, terms: Sequence[str], k: int, scope: Scope) -> list[Scored]:
        if not terms or k < 1 or not self._corpus[0]:
            return []
        scores = self._scores(terms)
        ids = np.flatnonzero(scores)
        if not scope.is_open:
            ids = ids[_among(ids, self._allowed_ids(scope))]
        found = scores[ids]
        if len(ids) > k:
            # All that are as good as the last one, so that of equals the oldest is taken.
            least = np.partition(found, len(found) - k)[len(found) - k]
            ids, found = ids[found >= least], found[found >= least]
        best = np.lexsort((ids, -found))[:k]
        return [(int(ids[place]), float(found[place])) for place in best]

    def lexical_scores(self, terms: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        if not terms or not chunk_ids or not self._corpus[0]:
            return {}
        scores = self._scores(terms)
        return {i: float(scores[i]) for i in chunk_ids if i < len(scores) and scores[i]}

    def _scores(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """BM25 of every chunk by its id; 0 of those that share no term."""
        key, known = tuple(terms), self._scored
        if known is not None and known[0] == key:
            return known[1]
        count, mean, _ = self._corpus
        weights = term_weights(terms)
        postings = {term: one for term, one in self._read(list(weights)).items() if len(one)}
        scores = np.zeros(max((int(one["id"].max()) for one in postings.values()), default=0) + 1, np.float32)
        lengths = (K1 * (1 - B + B * LENGTHS / mean)).astype(np.float32) if mean else np.ones(256, np.float32)
        for term, one in postings.items():
            idf = np.float32(weights[term] * inverse_frequency(count, len(one)) * (K1 + 1))
            counts = one["count"].astype(np.float32)
            scores[one["id"]] += idf * counts / (counts + lengths[one["length"]])
        self._scored = (key, scores)
        return scores

    def _read(self, terms: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The postings of these terms, without chunks that are gone."""
        remembered = self._postings  # replaced when the generation changes
        found = {term: remembered[term] for term in terms if term in remembered}
        missing = [term for term in terms if term not in found]
        if missing:
            packed: dict[str, list[bytes]] = {term: [] for term in missing}
            for term, some in self._search(
                f"SELECT term, packed FROM {self._table('postings')} WHERE term = ANY(%s)", (missing,)
            ):
                packed[term].append(some)
            for term, parts in packed.items():
                one = np.frombuffer(b"".join(parts), POSTING)
                one = one[~_within(one["id"].astype(np.int64), self._dropped)] if len(self._dropped) else one
                found[term] = remembered[term] = one
                self._kept_bytes += one.nbytes
            while self._kept_bytes > POSTINGS_KEPT and len(remembered) > 1:
                self._kept_bytes -= remembered.popitem(last=False)[1].nbytes
        return found

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        count, _, in_graph = self._corpus
        if k < 1 or not count:
            return []
        table, asked = self._table("chunks"), _literal(vector)
        allowed = None if scope.is_open else self._allowed_ids(scope)
        if allowed is not None and len(allowed) <= self.scanned_at_most:
            first, last = _as_ranges(allowed)
            rows = self._search(
                f"SELECT chunk_id, vector <=> %s::halfvec AS distance"
                f" FROM unnest(%s::bigint[], %s::bigint[]) AS wanted (first, last), LATERAL (SELECT chunk_id, vector"
                f" FROM {table} WHERE chunk_id BETWEEN wanted.first AND wanted.last OFFSET 0) AS near"
                f" ORDER BY distance LIMIT %s",
                (asked, first.tolist(), last.tolist(), k),
            )
        else:
            conditions, values = [], []
            if allowed is not None:
                conditions, values = ["%s::int8multirange @> chunk_id"], [_multirange(*_as_ranges(allowed))]
            if len(self._unpurged):
                conditions.append("NOT %s::int8multirange @> chunk_id")
                values.append(_multirange(self._unpurged[:, 0], self._unpurged[:, 1]))
            # What came since the graph was made is scanned beside it, as in `VectorIndex`.
            parts = ("in_graph", "NOT in_graph") if in_graph else ("true",)
            nearest = " UNION ALL ".join(
                f"(SELECT chunk_id, vector <=> %s::halfvec AS distance FROM {table}"
                f" WHERE {' AND '.join((part, *conditions))} ORDER BY vector <=> %s::halfvec LIMIT {int(k)})"
                for part in parts
            )
            # The limit stands in the text: a plan for any limit would not take the graph.
            rows = self._search(nearest, (asked, *values, asked) * len(parts))
        return sorted(((i, 1.0 - distance) for i, distance in rows), key=lambda pair: (-pair[1], pair[0]))[:k]

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        if not chunk_ids or not self._corpus[0]:
            return {}
        rows = self._search(
            f"SELECT chunk_id, 1 - (vector <=> %s::halfvec) FROM {self._table('chunks')} WHERE chunk_id = ANY(%s)",
            (_literal(vector), list(map(int, chunk_ids))),
        )
        return {i: cosine for i, cosine in rows if not _within(np.array([i]), self._unpurged)[0]}

    def resembling(
        self, terms: Sequence[str], distance: int, k: int, scope: Scope, without: Collection[str] = ()
    ) -> list[int]:
        if not self._corpus[0]:
            return []
        near: set[str] = set()
        for wanted in terms:
            alike = [one for one in self._vocabulary() if abs(len(one) - len(wanted)) <= distance]
            edits = edit_distances(wanted, alike)
            near.update(one for one, count in zip(alike, edits, strict=True) if count <= distance)
        held = [one["id"] for one in self._read(sorted(near - set(without))).values()]
        ids = np.unique(np.concatenate(held)).astype(np.int64) if held else np.zeros(0, np.int64)
        for one in self._read(list(without)).values():
            ids = ids[~_among(ids, np.sort(one["id"]).astype(np.int64))]
        if not scope.is_open:
            ids = ids[_among(ids, self._allowed_ids(scope))]
        return [int(i) for i in ids[:k]]

    def _vocabulary(self) -> list[str]:
        """Every term of the index; what came since the last look is read with its segments."""
        (number, seen), known = self._words
        if number != self._state.lexical:
            seen, known = 0, []
        last = self._search(f"SELECT coalesce(max(number), 0) FROM {self._table('segments')}", ())[0][0]
        if last != seen:
            asked = f"SELECT DISTINCT term FROM {self._table('postings')} WHERE segment > %s"
            known = list({*known, *(term for (term,) in self._search(asked, (seen,)))})
            self._words = ((self._state.lexical, last), known)
        return known

    def count(self, scope: Scope) -> int:
        return self._corpus[0] if scope.is_open else len(self._allowed_ids(scope))

    def frequency(self, term: str, scope: Scope) -> int:
        if not self._corpus[0]:
            return 0
        remembered = self._frequencies  # replaced, never emptied, when the generation changes
        found = remembered.get((term, scope))
        if found is None:
            if len(remembered) >= FREQUENCIES_KEPT:
                remembered = self._frequencies = {}
            if scope.is_open and not len(self._dropped) and term not in self._postings:
                asked = f"SELECT coalesce(sum(chunks), 0)::bigint FROM {self._table('postings')} WHERE term = %s"
                found = int(self._search(asked, (term,))[0][0])
            else:
                ids = self._read([term])[term]["id"].astype(np.int64)
                found = len(ids) if scope.is_open else int(_among(ids, self._allowed_ids(scope)).sum())
            remembered[(term, scope)] = found
        return found

    def _allowed_ids(self, scope: Scope) -> Ids:
        remembered = self._allowed  # replaced, never emptied, when the generation changes
        ids = remembered.get(scope)
        if ids is None:
            ids = remembered[scope] = self._chunks.chunk_ids(scope)
            while len(remembered) > SCOPES_KEPT:
                remembered.popitem(last=False)
        return ids

    def _search(self, statement: str, values: Sequence[Any]) -> list[Any]:
        try:
            return self._rows(statement, values)
        except LibraryError as error:
            if getattr(error.__cause__, "orig", None) is not None and _is_missing(error.__cause__):
                raise IndexDamaged(f"the search tables {self._state.lexical} are missing") from error
            raise

    # writing, under the library's lock

    def write(
        self,
        entries: Iterable[LexicalEntry],
        drop: Sequence[Range] = (),
        *,
        vectors: Mapping[int, NDArray[np.float32]] = NO_VECTORS,
        within: Any = None,
    ) -> None:
        number, known = self._chunks.state().lexical, list(entries)
        if within is not None:
            self._write(within, number, known, drop, vectors)
        else:
            with self._begin() as connection:
                self._write(connection, number, known, drop, vectors)

    def _write(
        self,
        connection: Any,
        number: int,
        entries: Sequence[LexicalEntry],
        drop: Sequence[Range],
        vectors: Mapping[int, NDArray[np.float32]],
    ) -> None:
        run = connection.exec_driver_sql
        if run(f"SELECT 1 FROM search_indexes WHERE number = {number}").first() is None:
            _make_tables(connection, number, self._embedder.dimensions)
        count = length = fewer_in_graph = 0
        for first, last in drop:
            gone = f"DELETE FROM search_{number}_chunks WHERE chunk_id BETWEEN {first} AND {last}"
            counted = "count(*), coalesce(sum(length), 0), count(*) FILTER (WHERE in_graph)"
            fewer, shorter, out = run(
                f"WITH gone AS ({gone} RETURNING length, in_graph) SELECT {counted} FROM gone"
            ).one()
            count, length, fewer_in_graph = count - fewer, length - int(shorter), fewer_in_graph + out
        if entries:
            if entries[-1].chunk_id > LAST_NUMBER:
                raise LibraryError("this library has numbered more chunks than PostgreSQL's index can hold")
            missing = [one.chunk_id for one in entries if one.chunk_id not in vectors]
            vectors = {**vectors, **self._chunks.vectors_of(self._embedder.name, missing)} if missing else vectors
            lengths = [len(one.terms) for one in entries]
            table = _chunk_rows([one.chunk_id for one in entries], lengths, vectors)
            _copy(connection, f"search_{number}_chunks (chunk_id, length, vector)", [table])
            made = f"INSERT INTO search_{number}_segments (chunks) VALUES ({len(entries)}) RETURNING number"
            segment = int(run(made).scalar_one())
            _copy(
                connection,
                f"search_{number}_postings (term, segment, chunks, packed)",
                (_posting_row(term, segment, packed) for term, packed in _packed(entries).items()),
            )
            _merge(connection, number)
            count, length = count + len(entries), length + sum(lengths)
        if count or length:
            more = f"chunks = chunks + {count}, length = length + {length}, in_graph = in_graph - {fewer_in_graph}"
            run(f"UPDATE search_indexes SET {more} WHERE number = {number}")

    def needs_compaction(self, dropped: int) -> bool:
        count, _, in_graph = self._corpus
        many = dropped > max(self.dropped_least, DROPPED_LIMIT * count)
        return many or (count > self.exact_below and count - in_graph > self._tail_limit)

    @property
    def _tail_limit(self) -> float:
        return max(self.tail_least, TAIL_SHARE * self._corpus[0]) if self._corpus[2] else 0

    def compact(self, state: LibraryState) -> None:
        """Postings without what is gone, and a graph over the vectors once there are many."""
        count, _, in_graph = self._corpus
        with self._begin() as connection:
            run, table = connection.exec_driver_sql, f"search_{state.lexical}_chunks"
            if not run(f"SELECT 1 FROM search_indexes WHERE number = {state.lexical}").first():
                return
            if len(self._dropped):
                _rewrite(connection, state.lexical, self._dropped)
            if count > self.exact_below and count > in_graph:
                # A graph made at once takes a tenth of the time of one that grows row by row.
                is_new = count - in_graph > GROWN_AT_MOST * count
                if is_new:
                    run(f"DROP INDEX IF EXISTS {table}_graph")
                run(f"UPDATE {table} SET in_graph = true WHERE NOT in_graph")
                if is_new:
                    run("SET LOCAL maintenance_work_mem = '512MB'")
                    run(
                        f"CREATE INDEX {table}_graph ON {table} USING hnsw (vector halfvec_cosine_ops)"
                        f" WITH (m = {CONNECTIVITY}, ef_construction = {EXPANSION_ADD}) WHERE in_graph"
                    )
                run(f"UPDATE search_indexes SET in_graph = chunks WHERE number = {state.lexical}")
            run(f"ANALYZE {table}")

    def remove_old(self, state: LibraryState) -> None:
        with self._begin() as connection:
            for (number,) in connection.exec_driver_sql("SELECT number FROM search_indexes").all():
                if number != state.lexical:
                    _drop_tables(connection, number)

    def rebuild(self, number: int, batches: Iterable[Sequence[LexicalEntry]]) -> None:
        with self._begin() as connection:
            _drop_tables(connection, number)  # of a killed attempt
            _make_tables(connection, number, self._embedder.dimensions)
        for batch in batches:
            with self._begin() as connection:
                self._write(connection, number, batch, (), NO_VECTORS)

    def forget_vectors(self, state: LibraryState) -> None:
        """They are in the tables of their index, which has another number."""

    def content(self) -> IndexContent:
        if not self._corpus[0]:
            return IndexContent(frozenset(), 0, has_current_terms=True)
        rows = self._search(f"SELECT chunk_id FROM {self._table('chunks')}", ())
        terms = self._search("SELECT terms FROM search_indexes WHERE number = %s", (self._state.lexical,))
        return IndexContent(frozenset(i for (i,) in rows), len(rows), terms[0][0] == VERSION)


def _make_tables(connection: Any, number: int, dimensions: int) -> None:
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
    run(f"INSERT INTO search_indexes VALUES ({number}, {VERSION}, {dimensions}, 0, 0, 0)")


def _drop_tables(connection: Any, number: int) -> None:
    for name in ("segments", "chunks", "postings"):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS search_{number}_{name}")
    connection.exec_driver_sql(f"DELETE FROM search_indexes WHERE number = {number}")


# Rows as COPY takes them in PostgreSQL's own binary form: a thousand a millisecond.


def _copy(connection: Any, target: str, rows: Iterable[bytes]) -> None:
    dialect = connection.dialect
    try:
        cursor = connection.connection.driver_connection.cursor()
        with cursor, cursor.copy(f"COPY {target} FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(_COPY_HEAD)
            copy.write(b"".join(rows))
            copy.write(_COPY_END)
    except dialect.loaded_dbapi.Error as error:
        raise LibraryError(f"the search tables cannot be written: {error}") from error


def _chunk_rows(ids: Sequence[int], lengths: Sequence[int], vectors: Mapping[int, NDArray[np.float32]]) -> bytes:
    matrix = np.array([vectors[i] for i in ids], dtype=">f2")
    dimensions = matrix.shape[1]
    sizes = [("columns", ">i2"), ("id_size", ">i4"), ("id", ">i8"), ("length_size", ">i4"), ("length", ">i4")]
    halves = [("size", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f2", (dimensions,))]
    rows = np.zeros(len(ids), dtype=np.dtype([*sizes, *halves]))
    rows["columns"], rows["id_size"], rows["length_size"], rows["size"] = 3, 8, 4, 4 + 2 * dimensions
    rows["id"], rows["length"], rows["dimensions"], rows["vector"] = ids, lengths, dimensions, matrix
    return rows.tobytes()


def _posting_row(term: str, segment: int, packed: bytes) -> bytes:
    word, count = term.encode("utf-8", "replace").replace(b"\0", b""), len(packed) // POSTING.itemsize
    return b"".join(
        (
            struct.pack(">hi", 4, len(word)),
            word,
            struct.pack(">iiiii", 4, segment, 4, count, len(packed)),
            packed,
        )
    )


def _packed(entries: Sequence[LexicalEntry]) -> dict[str, bytes]:
    """By term: the chunks that hold it, in their order, with how often, and how long each is."""
    lengths = np.searchsorted(LENGTHS, [len(one.terms) for one in entries], side="right") - 1
    found: dict[str, list[bytes]] = {}
    for entry, length in zip(entries, lengths.tolist(), strict=True):
        for term, count in Counter(entry.terms).items():
            found.setdefault(term, []).append(_PACK(entry.chunk_id, min(count, 255), length))
    return {term: b"".join(parts) for term, parts in found.items()}


def _merge(connection: Any, number: int) -> None:
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


def _rewrite(connection: Any, number: int, dropped: NDArray[np.int64]) -> None:
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
        _copy(connection, target, _kept_rows(rows, new, dropped))
    run("CLOSE every_posting")
    run(f"DELETE FROM search_{number}_postings WHERE segment <= {last}")
    run(f"DELETE FROM search_{number}_segments WHERE number <= {last}")


def _kept_rows(rows: Iterable[Any], segment: int, dropped: NDArray[np.int64]) -> Iterator[bytes]:
    for term, packed in rows:
        postings = np.frombuffer(packed, POSTING)
        kept = postings[~_within(postings["id"].astype(np.int64), dropped)]
        if len(kept):
            yield _posting_row(term, segment, kept.tobytes())


# Ids, and ranges of them.


def _literal(vector: NDArray[np.float32]) -> str:
    return orjson.dumps(np.ascontiguousarray(vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _ranges(found: Sequence[Range]) -> NDArray[np.int64]:
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)


def _within(ids: NDArray[Any], ranges: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the ids lie in one of the ranges."""
    if not len(ranges):
        return np.zeros(len(ids), dtype=np.bool_)
    place = np.searchsorted(ranges[:, 0], ids, side="right") - 1
    held: NDArray[np.bool_] = (place >= 0) & (ids <= ranges[np.maximum(place, 0), 1])
    return held


def _among(ids: NDArray[Any], allowed: Ids) -> NDArray[np.bool_]:
    """Which of the ids are allowed; these ascend."""
    if not len(allowed):
        return np.zeros(len(ids), dtype=np.bool_)
    found: NDArray[np.bool_] = allowed[np.minimum(np.searchsorted(allowed, ids), len(allowed) - 1)] == ids
    return found


def _as_ranges(ids: Ids) -> tuple[Ids, Ids]:
    """Ascending ids as the first and the last of each run of them: a document's chunks are one."""
    if not len(ids):
        return ids, ids
    breaks = np.flatnonzero(np.diff(ids) != 1)
    return ids[np.concatenate(([0], breaks + 1))], ids[np.concatenate((breaks, [len(ids) - 1]))]


def _multirange(first: Ids, last: Ids) -> str:
    pairs = zip(first.tolist(), last.tolist(), strict=True)
    return "{" + ",".join(f"[{begin},{end}]" for begin, end in pairs) + "}"


def _is_missing(error: Any) -> bool:
    return getattr(error.orig, "sqlstate", "") == "42P01"
