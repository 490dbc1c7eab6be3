"""The `Index` port in PostgreSQL: vectors by pgvector, BM25 over packed postings, written with the store's rows.

An index has a number, as the folders of the local one do: `search_3_chunks` holds the vector and the length of every
chunk, `search_3_postings` the chunks of each term, packed into one value per term and segment. What is added makes a
new segment; when there are eight of a size they are joined into one. All of it is written in the transaction that makes
a document visible: whoever searches sees both or neither.

The graph over the vectors follows later. It holds the chunks up to an id, `graph_until`, and those that are marked
`in_graph`; the others are scanned beside it. A graph that is made anew moves the id and writes no row; one that grows
marks what it takes in.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.errors import IndexDamaged, LibraryError
from refdesk.index.lexical import K1, B, inverse_frequency, term_weights
from refdesk.index.postgres_tables import (
    LENGTHS,
    MOST_DIMENSIONS,
    MOST_GONE,
    POSTING,
    TEXTSEARCH_PRESENT,
    VECTORSCALE_PRESENT,
    chunk_rows,
    copy_rows,
    drop_old_graphs,
    drop_tables,
    graph_condition,
    graph_kind,
    has_texts_table,
    lie_within,
    make_graph,
    make_list,
    make_tables,
    merge_segments,
    nearest_by_diskann,
    nearest_by_distance,
    pack_postings,
    posting_row,
    rewrite_postings,
    tail_condition,
    text_ranking,
    text_rows,
    text_scoring,
    texts_table,
    within,
)
from refdesk.ports import Embedder, Scored
from refdesk.records import LexicalEntry, LibraryState
from refdesk.store_ports import NO_VECTORS, ChunkStore, IndexContent
from refdesk.text import VERSION, edit_distances
from refdesk.types import Range, Scope

EXACT_BELOW = 10_000  # chunks; a scan of so many takes as long as the graph
SCANNED_AT_MOST = 20_000  # chunks that a filter leaves; of more the graph finds them sooner …
FEW, FEW_AT_MOST = 0.06, 3  # … but not where they are a small share; up to so many times as many are scanned then
EXPANSION_SEARCH = 320  # candidates in the graph; recall in benchmarks/results/postgres-1000000.md
DISKANN_SEARCH = 100  # the same in a graph of vectorscale, before it goes on for as many as are compared again
# What a session is told when it begins; iterative scans go on until a filter has left enough. A graph of vectorscale
# always does, and must not look at the vectors itself (`postgres_tables`).
SESSION = (
    f"-c hnsw.ef_search={EXPANSION_SEARCH} -c hnsw.iterative_scan=relaxed_order -c hnsw.max_scan_tuples=100000"
    f" -c diskann.query_rescore=0 -c diskann.query_search_list_size={DISKANN_SEARCH}"
)
DROPPED_LIMIT, DROPPED_LEAST = 0.2, 500  # share and number of deleted chunks at which postings are written anew
TAIL_LEAST, TAIL_SHARE = 10_000, 0.025  # vectors scanned beside the graph, and share of a large library
GROWN_AT_MOST = 0.1  # share of the chunks up to which a graph is let grow row by row
SCOPES_KEPT = 64  # sets of allowed chunk ids remembered for one generation
POSTINGS_KEPT = 32 << 20  # bytes of postings remembered for one generation
FREQUENCIES_KEPT = 20_000
RECOUNTED = 0.01  # share of the chunks that has to come or go before the most frequent language is looked for again
LAST_NUMBER = 2**32 - 1  # the greatest id that a posting can hold

Ids = NDArray[np.int64]
Rows = Callable[[str, Sequence[Any]], list[Any]]


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
        # Chunks, their mean length, how many are in the graph, and up to which id all are.
        self._corpus: tuple[int, float, int, int] = (0, 0.0, 0, 0)
        self._dropped = self._unpurged = np.zeros((0, 2), np.int64)
        self._server_ranks = False  # BM25 by pg_textsearch
        self._graph = ""  # how it was made: hnsw or diskann
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
            make_list(connection)

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
            asked = (
                "SELECT chunks, length, in_graph, graph_until, NOT pg_is_in_recovery() AND"
                f" to_regclass('search_' || number || '_texts') IS NOT NULL, {graph_kind('number', 'graph_until')}"
                " FROM search_indexes WHERE number = %s"
            )
            found = self._rows(asked, (state.lexical,))
            if not found and state.folded > 0:
                raise IndexDamaged(f"the search tables {state.lexical} are missing")
            count, length, in_graph, until, ranks, graph = found[0] if found else (0, 0, 0, 0, False, None)
            if until and graph is None:
                in_graph = 0  # it went with its extension: what is there is scanned, and another one made soon
            if abs(count - self._counted) > RECOUNTED * self._counted or self._chunks.spoken() != set(self.languages):
                self.languages, self._counted = self._chunks.languages(), count
            self._corpus = (count, length / max(1, count), in_graph, until)
            self._graph = (graph or "hnsw") if in_graph else ""
            self._server_ranks = ranks  # a replica does not have what the extension keeps in memory
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
        gone = int((self._unpurged[:, 1] - self._unpurged[:, 0] + 1).sum())
        if self._server_ranks and scope.is_open and gone <= MOST_GONE:
            rows = self._search(*text_ranking(self._state.lexical, terms, k + gone))
            return self._ordered(rows)[:k]
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
        if self._server_ranks:
            return dict(self._ordered(self._search(*text_scoring(self._state.lexical, terms, chunk_ids))))
        scores = self._scores(terms)
        return {i: float(scores[i]) for i in chunk_ids if i < len(scores) and scores[i]}

    def _ordered(self, rows: Sequence[Any]) -> list[Scored]:
        """The best first, of equals the oldest, without chunks that are gone."""
        scored = [(int(i), float(score)) for i, score in rows if score > 0]
        is_gone = lie_within(np.array([i for i, _ in scored], np.int64), self._unpurged)
        return sorted(
            (found for found, gone in zip(scored, is_gone, strict=True) if not gone),
            key=lambda pair: (-pair[1], pair[0]),
        )

    def _scores(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """BM25 of every chunk by its id; 0 of those that share no term."""
        key, known = tuple(terms), self._scored
        if known is not None and known[0] == key:
            return known[1]
        count, mean, _, _ = self._corpus
        weights = term_weights(terms)
        postings = {term: found for term, found in self._read(list(weights)).items() if len(found)}
        scores = np.zeros(max((int(posting["id"].max()) for posting in postings.values()), default=0) + 1, np.float32)
        lengths = (K1 * (1 - B + B * LENGTHS / mean)).astype(np.float32) if mean else np.ones(256, np.float32)
        for term, term_postings in postings.items():
            idf = np.float32(weights[term] * inverse_frequency(count, len(term_postings)) * (K1 + 1))
            counts = term_postings["count"].astype(np.float32)
            scores[term_postings["id"]] += idf * counts / (counts + lengths[term_postings["length"]])
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
                posting = np.frombuffer(b"".join(parts), POSTING)
                posting = (
                    posting[~lie_within(posting["id"].astype(np.int64), self._dropped)]
                    if len(self._dropped)
                    else posting
                )
                found[term] = remembered[term] = posting
                self._kept_bytes += posting.nbytes
            while self._kept_bytes > POSTINGS_KEPT and len(remembered) > 1:
                self._kept_bytes -= remembered.popitem(last=False)[1].nbytes
        return found

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        count, _, in_graph, until = self._corpus
        if k < 1 or not count:
            return []
        table, asked = self._table("chunks"), _literal(vector)
        allowed = None if scope.is_open else self._allowed_ids(scope)
        most = self.scanned_at_most * max(1.0, min(FEW_AT_MOST, FEW * count / max(1, self.scanned_at_most)))
        if allowed is not None and len(allowed) <= most:
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
                conditions, values = [within(self._graph)], [_multirange(*_as_ranges(allowed))]
            if len(self._unpurged):
                conditions.append("NOT %s::int8multirange @> chunk_id")
                values.append(_multirange(self._unpurged[:, 0], self._unpurged[:, 1]))
            # What came since the graph was made is scanned beside it, as in `VectorIndex`.
            parts = (graph_condition(until), tail_condition(until)) if in_graph else ("true",)
            wanted = [" AND ".join((part, *conditions)) for part in parts]
            statements = [nearest_by_distance(table, condition, k) for condition in wanted]
            if self._graph == "diskann":
                statements[0] = nearest_by_diskann(table, wanted[0], self._embedder.dimensions, k)
            nearest = " UNION ALL ".join(statements)
            rows = self._search(nearest, (asked, *values, asked) * len(parts))
        return sorted(((i, 1.0 - distance) for i, distance in rows), key=lambda pair: (-pair[1], pair[0]))[:k]

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        if not chunk_ids or not self._corpus[0]:
            return {}
        rows = self._search(
            f"SELECT chunk_id, 1 - (vector <=> %s::halfvec) FROM {self._table('chunks')} WHERE chunk_id = ANY(%s)",
            (_literal(vector), list(map(int, chunk_ids))),
        )
        return {i: cosine for i, cosine in rows if not lie_within(np.array([i]), self._unpurged)[0]}

    def resembling(
        self, terms: Sequence[str], distance: int, k: int, scope: Scope, without: Collection[str] = ()
    ) -> list[int]:
        if not self._corpus[0]:
            return []
        near: set[str] = set()
        for wanted in terms:
            alike = [term for term in self._vocabulary() if abs(len(term) - len(wanted)) <= distance]
            edits = edit_distances(wanted, alike)
            near.update(term for term, count in zip(alike, edits, strict=True) if count <= distance)
        holders = [posting["id"] for posting in self._read(sorted(near - set(without))).values()]
        ids = np.unique(np.concatenate(holders)).astype(np.int64) if holders else np.zeros(0, np.int64)
        for term_postings in self._read(list(without)).values():
            ids = ids[~_among(ids, np.sort(term_postings["id"]).astype(np.int64))]
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
        known = run(f"SELECT graph_until FROM search_indexes WHERE number = {number}").first()
        if known is None:
            make_tables(connection, number, self._embedder.dimensions)
        until, has_texts = 0 if known is None else known[0], has_texts_table(connection, number)
        count = length = fewer_in_graph = 0
        for first, last in drop:
            gone = f"DELETE FROM search_{number}_chunks WHERE chunk_id BETWEEN {first} AND {last}"
            counted = f"count(*), coalesce(sum(length), 0), count(*) FILTER (WHERE {graph_condition(until)})"
            fewer, shorter, out = run(
                f"WITH gone AS ({gone} RETURNING chunk_id, length, in_graph) SELECT {counted} FROM gone"
            ).one()
            if has_texts:
                run(f"DELETE FROM {texts_table(number)} WHERE chunk_id BETWEEN {first} AND {last}")
            count, length, fewer_in_graph = count - fewer, length - int(shorter), fewer_in_graph + out
        if entries:
            if entries[-1].chunk_id > LAST_NUMBER:
                raise LibraryError("this library has more chunk numbers than PostgreSQL's index supports")
            missing = [entry.chunk_id for entry in entries if entry.chunk_id not in vectors]
            vectors = {**vectors, **self._chunks.vectors_of(self._embedder.name, missing)} if missing else vectors
            lengths = [len(entry.terms) for entry in entries]
            table = chunk_rows([entry.chunk_id for entry in entries], lengths, vectors)
            copy_rows(connection, f"search_{number}_chunks (chunk_id, length, vector)", [table])
            made = f"INSERT INTO search_{number}_segments (chunks) VALUES ({len(entries)}) RETURNING number"
            segment = int(run(made).scalar_one())
            copy_rows(
                connection,
                f"search_{number}_postings (term, segment, chunks, packed)",
                (posting_row(term, segment, packed) for term, packed in pack_postings(entries).items()),
            )
            merge_segments(connection, number)
            if has_texts:
                copy_rows(connection, f"{texts_table(number)} (chunk_id, terms)", text_rows(entries))
            count, length = count + len(entries), length + sum(lengths)
        if count or length:
            more = f"chunks = chunks + {count}, length = length + {length}, in_graph = in_graph - {fewer_in_graph}"
            run(f"UPDATE search_indexes SET {more} WHERE number = {number}")

    def needs_compaction(self, dropped: int) -> bool:
        count, _, in_graph, _ = self._corpus
        many = dropped > max(self.dropped_least, DROPPED_LIMIT * count)
        return many or (count > self.exact_below and count - in_graph > self._tail_limit)

    @property
    def _tail_limit(self) -> float:
        return max(self.tail_least, TAIL_SHARE * self._corpus[0]) if self._corpus[2] else 0

    def compact(self, state: LibraryState) -> None:
        """Postings without what is gone, and a graph over the vectors once there are many."""
        count, _, in_graph, until = self._corpus
        with self._begin() as connection:
            run, table = connection.exec_driver_sql, f"search_{state.lexical}_chunks"
            if not run(f"SELECT 1 FROM search_indexes WHERE number = {state.lexical}").first():
                return
            if len(self._dropped):
                rewrite_postings(connection, state.lexical, self._dropped)
            if count > self.exact_below and count - in_graph > GROWN_AT_MOST * count:
                # A graph made at once takes a tenth of the time of one that grows row by row.
                make_graph(connection, state.lexical, count)
            elif count > self.exact_below and count > in_graph:
                run(f"UPDATE {table} SET in_graph = true WHERE {tail_condition(until)}")
                run(f"UPDATE search_indexes SET in_graph = chunks WHERE number = {state.lexical}")
            run(f"ANALYZE {table}")
        with suppress(LibraryError), self._begin() as connection:
            drop_old_graphs(connection, state.lexical)

    def remove_old(self, state: LibraryState) -> None:
        with self._begin() as connection:
            for (number,) in connection.exec_driver_sql("SELECT number FROM search_indexes").all():
                if number != state.lexical:
                    drop_tables(connection, number)

    def rebuild(self, number: int, batches: Iterable[Sequence[LexicalEntry]]) -> None:
        with self._begin() as connection:
            drop_tables(connection, number)  # of a killed attempt
            make_tables(connection, number, self._embedder.dimensions)
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
        ids = frozenset(i for (i,) in rows)
        if self._server_ranks:
            ranked = self._search(f"SELECT chunk_id FROM {self._table('texts')}", ())
            ids = ids.intersection(i for (i,) in ranked)
        return IndexContent(ids, len(rows), terms[0][0] == VERSION)

    @property
    def graph_by(self) -> str:
        """What the graph over the vectors is, in words."""
        if not self._graph:
            return "no graph yet"
        if self._graph == "diskann":
            return "graph by DiskANN (pgvectorscale)"
        could = self._embedder.dimensions <= MOST_DIMENSIONS and self._rows(VECTORSCALE_PRESENT, ())
        return f"graph by HNSW{'; pgvectorscale is installed, run `refdesk reindex` to use it' if could else ''}"

    @property
    def ranked_by(self) -> str:
        """How BM25 is made, in words."""
        present = self._rows(TEXTSEARCH_PRESENT, ())
        if self._server_ranks:
            return f"BM25 by pg_textsearch {present[0][0] if present else ''}".strip()
        later = "; pg_textsearch is installed, run `refdesk reindex` to use it" if present and self._corpus[0] else ""
        return f"BM25 by Refdesk's own tables{later}"


# Ids, and ranges of them.


def _literal(vector: NDArray[np.float32]) -> str:
    return orjson.dumps(np.ascontiguousarray(vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _ranges(found: Sequence[Range]) -> NDArray[np.int64]:
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)


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
