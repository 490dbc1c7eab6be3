"""BM25 with tantivy, and in memory. Terms come from `refdesk.text`, so every index analyses text the same way.

In memory stand all terms of a small index, and what came last of a large one; scored as tantivy scores them.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import tantivy
from numpy.typing import NDArray
from tantivy import FieldType, Occur, Query

from refdesk.config import is_closed, make_folder
from refdesk.errors import IndexDamaged
from refdesk.ports import Embedder, Scored
from refdesk.records import LexicalEntry, LibraryState
from refdesk.store_ports import NO_VECTORS, ChunkStore, IndexContent
from refdesk.text import VERSION, edit_distances
from refdesk.types import EVERYTHING, Range, Scope

K1, B = 1.2, 0.75  # tantivy's, and Lucene's
K3 = 2.0  # a word that the query says twice counts 1.5 times, and never more than 3 times


@dataclass(frozen=True, slots=True)
class Corpus:
    """What the score of a chunk depends on besides itself: all chunks that are searched, wherever their terms are."""

    count: int
    mean_length: float
    frequency: Callable[[str], int]  # chunks that hold a term

    def idf(self, term: str) -> float:
        return inverse_frequency(self.count, self.frequency(term))


@dataclass(slots=True)
class Postings:
    """Chunks whose ids are greater than `after`; each search looks at those that hold one of its terms."""

    after: int = 0
    lengths: dict[int, int] = field(default_factory=dict)  # terms of each chunk, by id
    _by_term: dict[str, dict[int, int]] = field(default_factory=dict)  # how often it is in which chunk

    @property
    def last_id(self) -> int:
        return max(self.lengths, default=self.after)

    @property
    def terms(self) -> Iterable[str]:
        return self._by_term

    def frequency(self, term: str, allowed: Collection[int] | None = None) -> int:
        found = self._by_term.get(term, {})
        return len(found) if allowed is None else sum(chunk_id in allowed for chunk_id in tuple(found))

    def corpus(self) -> Corpus:
        """Where there are no others."""
        count = len(self.lengths)
        return Corpus(count, sum(self.lengths.values()) / max(1, count), self.frequency)

    def add(self, entries: Iterable[LexicalEntry]) -> None:
        for entry in entries:
            for term, count in Counter(entry.terms).items():
                self._by_term.setdefault(term, {})[entry.chunk_id] = count
            self.lengths[entry.chunk_id] = len(entry.terms)

    def drop(self, ranges: Sequence[Range]) -> None:
        late = [(first, last) for first, last in ranges if last > self.after]
        gone = {i for i in self.lengths if any(first <= i <= last for first, last in late)}
        for chunk_id in gone:
            del self.lengths[chunk_id]
        if gone:
            self._by_term = {term: left for term, of in self._by_term.items() if (left := _without(of, gone))}

    def scores(self, terms: Sequence[str], corpus: Corpus, allowed: Collection[int] | None = None) -> dict[int, float]:
        """BM25 of the chunks that hold a term, or of those that are allowed."""
        scores: dict[int, float] = {}
        for term, weight in term_weights(terms).items():
            # As one step: another thread may be adding.
            found = tuple(self._by_term.get(term, {}).items())
            idf = weight * corpus.idf(term) if found else 0.0
            for chunk_id, count in found:
                if allowed is None or chunk_id in allowed:
                    length = _rounded(self.lengths.get(chunk_id, 0)) / corpus.mean_length
                    part = count * (K1 + 1) / (count + K1 * (1 - B + B * length))
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + idf * part
        return scores

    def resembling(
        self, terms: Sequence[str], distance: int, without: Collection[str], allowed: Collection[int] | None = None
    ) -> list[int]:
        """Chunks that hold a term within an edit distance, and none of `without`."""
        found: set[int] = set()
        known = tuple(self._by_term.items())
        for wanted in terms:
            edits = edit_distances(wanted, [term for term, _ in known])
            near = (chunk_ids for (_, chunk_ids), count in zip(known, edits, strict=True) if count <= distance)
            found.update(*map(tuple, near))
        for term in without:
            found.difference_update(tuple(self._by_term.get(term, ())))
        return sorted(chunk_id for chunk_id in found if allowed is None or chunk_id in allowed)


def term_weights(terms: Sequence[str]) -> dict[str, float]:
    """How much each term of a query counts: one that is there twice more, by BM25's own rule for words of the query.

    Weights are taken relative to their mean, so that scores can be compared with those of distinct terms.
    """
    weights = {term: count * (K3 + 1) / (K3 + count) for term, count in Counter(terms).items()}
    mean = sum(weights.values()) / max(1, len(weights))
    return {term: weight / mean for term, weight in weights.items()}


def inverse_frequency(count: int, holding: int) -> float:
    return math.log(1 + (count - holding + 0.5) / (holding + 0.5))


def _without(counts: dict[int, int], gone: Collection[int]) -> dict[int, int]:
    return {chunk_id: count for chunk_id, count in counts.items() if chunk_id not in gone}


def _rounded(length: int) -> int:
    """The length of a chunk as one byte keeps it: exact up to 40, then to four binary digits (Lucene's SmallFloat)."""
    if length < 40:
        return length
    shift = (length - 24).bit_length() - 4
    return 24 + ((length - 24) >> shift << shift)


# --- tantivy's files --------------------------------------------------------------------------------------------------

TERMS = "terms.version"  # which of `refdesk.text` the index was made with
WRITER_HEAP = 50_000_000  # bytes; one thread: analysis is done before, so tantivy only sorts postings
SMALL_HEAP = 15_000_000  # the least that tantivy takes; it fills a third of it with an empty table at each commit
FEW = 1_000  # entries that find room in the small one
SMALL_SEGMENT = 10_000  # chunks; tantivy's merge policy takes all below this for one size …
MERGED_AT = 8  # … and joins segments from eight of a size on. Each one costs a search some 20 µs.

Factors = Mapping[str, float]  # by term: what its weight has to be multiplied with, as there are chunks elsewhere
NO_FACTORS: Factors = {}


class LexicalIndex:
    """One folder of tantivy files; the caller holds the library's lock while writing."""

    def __init__(self, folder: Path, *, create: bool) -> None:
        self.folder = folder
        self._schema = _schema()
        self._seen: tuple[int, int] | None = (0, 0)
        self._statistics = (0, 0.0)
        if not create and not (folder / "meta.json").is_file():
            raise IndexDamaged(f"the BM25 index {folder} is missing")
        make_folder(folder)
        if not (folder / "meta.json").is_file():
            (folder / TERMS).write_text(f"{VERSION}\n", encoding="ascii")
        try:
            self._index = tantivy.Index(self._schema, path=str(self._readable(folder)), reuse=True)
            self._index.register_tokenizer("terms", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
            self._index.config_reader(reload_policy="manual")
        except ValueError as error:  # what tantivy raises for everything
            raise IndexDamaged(f"the BM25 index {folder} does not open: {error}") from error
        self.reload()

    def _readable(self, folder: Path) -> Path:
        """The folder; where it cannot be written, one of links to its files: tantivy takes a lock to read, too."""
        if not is_closed(folder):
            return folder
        self._links = tempfile.TemporaryDirectory(prefix="refdesk-index-")
        for path in folder.iterdir():
            if not path.name.endswith(".lock"):
                Path(self._links.name, path.name).symlink_to(path)
        return Path(self._links.name)

    def reload(self) -> None:
        """Sees what has been committed by any process; not free, as it lets go what it had open of the files."""
        written = self._written()
        if written == self._seen:
            return
        try:
            self._index.reload()
        except ValueError as error:  # a file of it is missing or damaged
            raise IndexDamaged(f"the BM25 index {self.folder} does not open: {error}") from error
        self._searcher, self._seen, self._statistics = self._index.searcher(), written, (0, 0.0)

    def _written(self) -> tuple[int, int] | None:
        """Which commit the files are of: each one puts another `meta.json` in place."""
        try:
            state = (self.folder / "meta.json").stat()
        except OSError:
            return None
        return state.st_ino, state.st_mtime_ns

    @property
    def has_current_terms(self) -> bool:
        """Whether its terms are made as those of questions are now; indexes of version 1 do not say theirs."""
        try:
            return (self.folder / TERMS).read_text(encoding="ascii").strip() == str(VERSION)
        except (OSError, ValueError):
            return False

    @property
    def count(self) -> int:
        return int(self._searcher.num_docs)

    @property
    def is_scattered(self) -> bool:
        """Whether tantivy begins to merge at each commit: in vain, unless somebody waits for it."""
        segments = orjson.loads((self.folder / "meta.json").read_bytes())["segments"]
        return len([segment for segment in segments if segment["max_doc"] < SMALL_SEGMENT]) >= MERGED_AT

    # writing

    def write(self, entries: Iterable[LexicalEntry], drop: Sequence[Range] = ()) -> None:
        """Drops ranges of chunk ids, adds entries, and makes both durable in one commit."""
        new = list(entries)
        writer = self._open_writer(SMALL_HEAP if len(new) <= FEW else WRITER_HEAP)
        try:
            for first, last in drop:
                writer.delete_documents_by_query(
                    Query.range_query(self._schema, "id", FieldType.Unsigned, first, last, True, True)
                )
            for entry in new:
                writer.add_document(_document(entry))
            writer.commit()
        finally:
            del writer  # gives tantivy's own lock back, which a traceback would hold on to

    def merge(self) -> None:
        """Joins small segments, when there are many, into larger ones."""
        if self.is_scattered:
            writer = self._open_writer(SMALL_HEAP)
            try:
                writer.commit()
                writer.wait_merging_threads()
            finally:
                del writer  # a failure's traceback would keep tantivy's own lock

    def _open_writer(self, heap: int) -> Any:
        """A writer, after clearing what one that was killed in its commit has left.

        Lists of deleted chunks are named by the commit they belong to; the next commit counts on from the last whole
        one, takes the same name, and fails on a file that is there. No reader knows a list as new as that.
        """
        meta = orjson.loads((self.folder / "meta.json").read_bytes())
        living = {
            f"{segment['segment_id'].replace('-', '')}.{segment['deletes']['opstamp']}.del"
            for segment in meta["segments"]
            if segment["deletes"]
        }
        for path in self.folder.glob("*.del"):
            stamp = path.name.split(".")[1]
            if path.name not in living and stamp.isdigit() and int(stamp) >= meta["opstamp"]:
                path.unlink()
        return self._index.writer(heap_size=heap, num_threads=1)

    # searching

    def search(self, terms: Sequence[str], k: int, scope: Scope, factors: Factors = NO_FACTORS) -> list[Scored]:
        if not terms or k < 1:
            return []
        return self._run(_filtered(self._terms(terms, factors), self._filters(scope)), k)

    def scores(self, terms: Sequence[str], chunk_ids: Sequence[int], factors: Factors = NO_FACTORS) -> dict[int, float]:
        if not terms or not chunk_ids:
            return {}
        # A union of single terms is five times faster here than a term set query.
        wanted = Query.boolean_query(
            [(Occur.Should, Query.term_query(self._schema, "id", chunk_id)) for chunk_id in chunk_ids]
        )
        return dict(self._run(_filtered(self._terms(terms, factors), [wanted]), len(chunk_ids)))

    def resembling(
        self, terms: Sequence[str], distance: int, k: int, scope: Scope, without: Collection[str] = ()
    ) -> list[int]:
        alike = [Query.fuzzy_term_query(self._schema, "body", term, distance=distance) for term in terms]
        query = Query.boolean_query([(Occur.Should, term) for term in alike])
        if without:
            left_out = [(Occur.MustNot, Query.term_query(self._schema, "body", term)) for term in without]
            query = Query.boolean_query([(Occur.Must, query), *left_out])
        return [chunk_id for chunk_id, _ in self._run(_filtered(query, self._filters(scope)), k)] if alike else []

    def frequency(self, term: str, scope: Scope | None = None) -> int:
        """The number of chunks, of those in scope, that hold a term."""
        if scope is None or scope.is_open:
            return int(self._searcher.doc_freq("body", term))
        query = _filtered(self._terms([term], NO_FACTORS), self._filters(scope))
        return int(self._searcher.search(query, 1, count=True).count or 0)

    def statistics(self, terms: Iterable[str]) -> tuple[int, float]:
        """The count and the mean length of chunks that scores are made with, as the score of one of these terms tells.

        (0, 0.0) when none of them is in a chunk.
        """
        if not self._statistics[0]:
            for term in terms:
                query = Query.term_query(self._schema, "body", term)
                for _, address in self._searcher.search(query, 1, count=False).hits:
                    _, idf, part = orjson.loads(query.explain(self._searcher, address).to_json())["details"]
                    self._statistics = int(idf["details"][1]["value"]), float(part["details"][4]["value"])
                    return self._statistics
        return self._statistics

    def ids(self) -> set[int]:
        """Every chunk id in the index; for checks, not for searching."""
        searcher = self._searcher
        found = searcher.search(Query.all_query(), max(1, searcher.num_docs), count=False).hits
        return {int(value) for value in searcher.fast_field_values("id", [address for _, address in found])}

    def _terms(self, terms: Sequence[str], factors: Factors) -> Query:
        """Any of these; one that is there twice counts more."""
        wanted = [
            (Query.term_query(self._schema, "body", term), weight * factors.get(term, 1.0))
            for term, weight in term_weights(terms).items()
        ]
        return Query.boolean_query(
            [(Occur.Should, query if weight == 1.0 else Query.boost_query(query, weight)) for query, weight in wanted]
        )

    def _run(self, query: Query, k: int) -> list[Scored]:
        searcher = self._searcher
        # tantivy reserves room for k hits, and ends the process when there is not that much memory.
        hits = searcher.search(query, min(k, max(1, searcher.num_docs)), count=False).hits
        ids = searcher.fast_field_values("id", [address for _, address in hits])
        return [(int(chunk_id), float(score)) for chunk_id, (score, _) in zip(ids, hits, strict=True)]

    def _filters(self, scope: Scope) -> list[Query]:
        filters = [] if scope.access is EVERYTHING else [self._any_of("collection", scope.access)]
        for name, values in (("collection", scope.collections), ("document", scope.documents), ("kind", scope.kinds)):
            if values:
                filters.append(self._any_of(name, values))
        filters.extend(self._any_of("metadata", [_pair(name, value)]) for name, value in scope.metadata)
        if scope.pages is not None:
            filters.append(self._between("first_page", 0, scope.pages[1]))
            filters.append(self._between("last_page", scope.pages[0], _MOST))
        if scope.date_from or scope.date_to:
            filters.append(self._between("date", _day(scope.date_from) or 1, _day(scope.date_to) or _MOST))
        return filters

    def _any_of(self, field: str, values: Sequence[str]) -> Query:
        return Query.boolean_query([(Occur.Should, Query.term_query(self._schema, field, value)) for value in values])

    def _between(self, field: str, low: int, high: int) -> Query:
        return Query.range_query(self._schema, field, FieldType.Unsigned, low, high, True, True)


_MOST = 2**53


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("id", indexed=True, fast=True)
    for name in ("collection", "document", "kind", "metadata"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in ("first_page", "last_page", "date"):
        builder.add_unsigned_field(name, fast=True)
    builder.add_text_field("body", tokenizer_name="terms", index_option="freq")
    return builder.build()


def _document(entry: LexicalEntry) -> Any:
    document = tantivy.Document()
    document.add_unsigned("id", entry.chunk_id)
    document.add_text("document", entry.document_id)
    document.add_text("kind", entry.kind)
    parts = entry.collection.split("/")
    for depth in range(1, len(parts) + 1):  # "finance/2024" is found under "finance" too
        document.add_text("collection", "/".join(parts[:depth]))
    for name, value in entry.metadata:
        document.add_text("metadata", _pair(name, value))
    document.add_unsigned("first_page", entry.first_page)
    document.add_unsigned("last_page", entry.last_page)
    if day := _day(entry.date):
        document.add_unsigned("date", day)
    document.add_text("body", " ".join(entry.terms))
    return document


def _filtered(query: Query, filters: Sequence[Query]) -> Query:
    if not filters:
        return query
    unscored = [(Occur.Must, Query.const_score_query(filter_, 0.0)) for filter_ in filters]
    return Query.boolean_query([(Occur.Must, query), *unscored])


def _pair(name: str, value: str) -> str:
    return f"{name}\x1f{value}"


def _day(date: str) -> int:
    """`2024-03-01` -> 20240301; 0 for no date."""
    digits = date[:10].replace("-", "")
    return int(digits) if len(digits) == 8 and digits.isdigit() else 0


# --- the `IndexWriter` port in memory: what other indexes are held to -------------------------------------------------


class MemoryIndex:
    """Looks at every chunk for every search; exact, and meant for thousands."""

    tail_room = 0
    keeps_vectors = False  # they are read from the store

    def __init__(self, chunks: ChunkStore, embedder: Embedder) -> None:
        self._chunks, self._embedder = chunks, embedder
        self._postings = Postings()

    @property
    def languages(self) -> tuple[str, ...]:
        return self._chunks.languages()

    def refresh(self) -> LibraryState:
        return self._chunks.state()

    # searching

    def lexical(self, terms: Sequence[str], k: int, scope: Scope) -> list[Scored]:
        return _best(self.lexical_scores(terms, self._ids(scope)), k)

    def lexical_scores(self, terms: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        return self._postings.scores(terms, self._postings.corpus(), set(chunk_ids))

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        return _best(self.cosines(vector, self._ids(scope)), k)

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        ids, vectors = self._chunks.vectors_after(self._embedder.name, 0, self._embedder.dimensions)
        wanted = set(chunk_ids)
        scores = np.vecdot(vectors, vector) if len(ids) else np.zeros(0)
        return {int(i): float(score) for i, score in zip(ids, scores, strict=True) if int(i) in wanted}

    def resembling(
        self, terms: Sequence[str], distance: int, k: int, scope: Scope, without: Collection[str] = ()
    ) -> list[int]:
        return self._postings.resembling(terms, distance, without, set(self._ids(scope)))[:k]

    def count(self, scope: Scope) -> int:
        return len(self._ids(scope))

    def frequency(self, term: str, scope: Scope) -> int:
        return self._postings.frequency(term, set(self._ids(scope)))

    def _ids(self, scope: Scope) -> list[int]:
        return [int(chunk_id) for chunk_id in self._chunks.chunk_ids(scope)]

    # writing

    def write(
        self,
        entries: Iterable[LexicalEntry],
        drop: Sequence[Range] = (),
        *,
        vectors: Mapping[int, NDArray[np.float32]] = NO_VECTORS,
        within: Any = None,
    ) -> None:
        self._postings.drop(drop)
        self._postings.add(entries)

    def rebuild(self, number: int, batches: Iterable[Sequence[LexicalEntry]]) -> None:
        postings = Postings()
        for batch in batches:
            postings.add(batch)
        self._postings = postings

    def needs_compaction(self, dropped: int) -> bool:
        return dropped > max(1, len(self._postings.lengths))

    def compact(self, state: LibraryState) -> None:
        """Vectors are the store's own."""

    def remove_old(self, state: LibraryState) -> None:
        """There is nothing old."""

    def forget_vectors(self, state: LibraryState) -> None:
        """Vectors are the store's own."""

    def content(self) -> IndexContent:
        return IndexContent(frozenset(self._postings.lengths), len(self._ids(Scope())), has_current_terms=True)


def _best(scores: dict[int, float], k: int) -> list[Scored]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: max(0, k)]
