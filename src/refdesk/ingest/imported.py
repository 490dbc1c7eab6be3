"""Imports chunks made by other programs, unchanged: one JSON object per line (seed 000, Q1).

    {"chunk_id": "c7", "doc_id": "d1", "sequence_number": 7, "chunk_type": "text", "heading_path": "Costs > Fuel",
     "content_raw": "Fuel cost 4 % more.", "content_summary": "Fuel costs.", "token_count": 6, "doc_name": "report.pdf"}

`doc_id` and `content_raw` are needed. Chunks of one `doc_id` are one document, in the order of their numbers; none is
cut or joined. A summary that comes with a chunk replaces the one we would make; tokens are counted by our model.
The records of an Airtable table are such chunks too; they are read over its HTTP API.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from refdesk.config import hash_bytes
from refdesk.errors import ProviderRefused, ProviderUnavailable, UsageError
from refdesk.ingest.enrich import enrich
from refdesk.ingest.split import CountTokens
from refdesk.ingest.worker import detect_language, readable_name
from refdesk.ports import Embedder
from refdesk.records import Prepared
from refdesk.store_ports import DocumentStore, LibraryWriter, Ready
from refdesk.text import sentences
from refdesk.types import KINDS, Added, Chunk, Document, Page, Scope, Sentence, Span

FIELDS = ("chunk_id", "doc_id", "sequence_number", "chunk_type", "content_summary", "heading_path", "token_count")
BESIDE = ("content_raw", "doc_name", "page")
KIND_OF = {"graphic": "figure", "image": "figure", "paragraph": "text", "title": "heading"}
PATH_MARKS = (" > ", " › ", " / ")
LONGEST_CHUNK = 200_000  # characters
BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class ImportedChunk:
    """A chunk as another program made it."""

    document: str
    name: str
    sequence: int
    text: str
    kind: str = ""
    summary: str = ""
    heading_path: tuple[str, ...] = ()
    page: int = 1


@dataclass(frozen=True, slots=True)
class ImportedDocument:
    """The chunks of one document, in their order."""

    id: str  # as the other program calls it
    name: str
    chunks: tuple[ImportedChunk, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def content_hash(self) -> str:
        rows = [
            [chunk.sequence, chunk.text, chunk.kind, chunk.summary, chunk.heading_path, chunk.page]
            for chunk in self.chunks
        ]
        return hash_bytes(json.dumps([self.name, rows]).encode("utf-8", "replace"))


def read_lines(lines: Iterable[str]) -> list[ImportedChunk]:
    """JSONL to chunks; the first line that is wrong is named."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            raise UsageError(f"line {number} is not JSON", hint="write one object per line") from None
        if not isinstance(row, dict):
            raise UsageError(f"line {number} is not a JSON object", hint="write one object per line")
        found.append(checked_chunk(row, f"line {number}", number))
    return found


def checked_chunk(row: Mapping[str, Any], where: str, number: int) -> ImportedChunk:
    """A row by the names of seed 000; `number` is its place, for rows that have none of their own."""
    text = _text(row.get("content_raw"))
    document = _text(row.get("doc_id"))
    if not document:
        raise UsageError(f"{where} has no doc_id", hint="it identifies the chunk's document")
    if not text.strip():
        raise UsageError(f"{where} has no content_raw", hint="a summary alone cannot be cited")
    if len(text) > LONGEST_CHUNK:
        raise UsageError(
            f"the content_raw of {where} is longer than {LONGEST_CHUNK:,} characters", hint="split it first"
        )
    kind = _text(row.get("chunk_type")).strip().lower()
    kind = KIND_OF.get(kind, kind)
    return ImportedChunk(
        document=document,
        name=_text(row.get("doc_name")) or document,
        sequence=_number(row.get("sequence_number"), number, where, "sequence_number"),
        text=text.strip(),
        kind=kind if kind in KINDS else "",
        summary=" ".join(_text(row.get("content_summary")).split()),
        heading_path=_path(row.get("heading_path")),
        page=max(1, _number(row.get("page"), 1, where, "page")),
    )


def _text(value: object) -> str:
    """Airtable gives a list for a field that looks into another table."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, bool) or value is None:
        return ""
    return str(value).replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _number(value: object, default: int, where: str, name: str) -> int:
    if value is None or value == "":
        return default
    try:
        return int(_text(value))
    except ValueError:
        raise UsageError(f"the {name} of {where} is not a whole number: {_text(value)[:50]!r}") from None


def _path(value: object) -> tuple[str, ...]:
    """`["Costs", "Fuel"]`, `"Costs > Fuel"`."""
    if isinstance(value, list):
        parts = [_text(part) for part in value]
    else:
        text = _text(value)
        mark = next((mark for mark in PATH_MARKS if mark in text), PATH_MARKS[0])
        parts = text.split(mark)
    return tuple(" ".join(part.split()) for part in parts if part.strip())


def by_document(chunks: Iterable[ImportedChunk], metadata: Mapping[str, str]) -> list[ImportedDocument]:
    """Documents in the order they come; of two chunks with one number the later one counts."""
    grouped: dict[str, dict[int, ImportedChunk]] = {}
    for chunk in chunks:
        grouped.setdefault(chunk.document, {})[chunk.sequence] = chunk
    return [
        ImportedDocument(
            document, next(iter(chunks.values())).name, tuple(chunks[at] for at in sorted(chunks)), metadata
        )
        for document, chunks in grouped.items()
    ]


def prepared(found: ImportedDocument, document: Document, count_tokens: CountTokens) -> Prepared:
    """All that is stored of a document, but for its vectors: its chunks as they came."""
    title = document.title or readable_name(found.name) or found.name
    text = BETWEEN.join(chunk.text for chunk in found.chunks)
    language = detect_language(text)
    chunks: list[Chunk] = []
    start = 0
    contexts = [" › ".join((title, *(part for part in chunk.heading_path if part != title))) for chunk in found.chunks]
    tokens = count_tokens([f"{context}\n{chunk.text}" for context, chunk in zip(contexts, found.chunks, strict=True)])
    first = min(chunk.sequence for chunk in found.chunks)
    shift = max(0, 1 - first)  # numbers begin with 1
    for imported, context, count in zip(found.chunks, contexts, tokens, strict=True):
        end = len(imported.text)
        chunks.append(
            Chunk(
                document_id=document.id,
                sequence=imported.sequence + shift,
                kind=imported.kind or "text",
                text=imported.text,
                heading_path=imported.heading_path,
                pages=(1,),
                spans=(Span(0, end, start, 1),),
                sentences=tuple(Sentence(first, last, 1) for first, last in sentences(imported.text))
                or (Sentence(0, end, 1),),
                token_count=count,
                context=context,
            )
        )
        start += end + len(BETWEEN)
    made = [
        replace(enriched, kind=imported.kind or enriched.kind, summary=imported.summary or enriched.summary)
        for enriched, imported in zip(enrich(chunks, language=language), found.chunks, strict=True)
    ]
    full = replace(
        document, title=title, language=language, page_count=1, chunk_count=len(made), size=len(text.encode())
    )
    return Prepared(full, text, (Page(1, 0, len(text)),), tuple(made))


def as_document(found: ImportedDocument, collection: str) -> Document:
    """As a text that a program hands in: known by its name within the collection."""
    return Document(
        id="",
        name=found.name,
        collection=collection,
        content_hash=found.content_hash,
        status="pending",
        format="chunks",
        metadata={**found.metadata, "doc_id": found.id},
    )


class Importer:
    """Stores documents whose chunks were made elsewhere; one that is unchanged costs nothing."""

    def __init__(self, documents: DocumentStore, writer: LibraryWriter, embedder: Embedder) -> None:
        self._documents, self._writer, self._embedder = documents, writer, embedder

    def store(self, found: Sequence[ImportedDocument], collection: str, on_added: Callable[[Added], None]) -> None:
        for imported in self._named_apart(found, collection):
            document = as_document(imported, collection)
            known = self._documents.text_named(collection, imported.name)
            if known is not None and known.status == "ready" and known.content_hash == document.content_hash:
                on_added(Added(imported.name, "unchanged", known))
                continue
            made = prepared(imported, document, self._embedder.count_tokens)
            ready = Ready(made, self._embedder.embed_chunks(made.chunks))
            ((stored, outcome),) = self._writer.store([ready])
            on_added(Added(stored.name, outcome, stored))

    def _named_apart(self, found: Sequence[ImportedDocument], collection: str) -> list[ImportedDocument]:
        """Two documents of one name are distinguished by the ids they had elsewhere."""
        taken: dict[str, str] = {}
        apart = []
        for imported in found:
            known = self._documents.text_named(collection, imported.name)
            owner = taken.get(imported.name, known.metadata.get("doc_id", "") if known is not None else imported.id)
            name = imported.name if owner == imported.id else f"{imported.name} ({imported.id})"
            taken.setdefault(imported.name, owner)
            apart.append(replace(imported, name=name))
        return apart

    def remove_missing(self, mark: tuple[str, str], collection: str, kept: set[str]) -> list[Added]:
        """Documents that carry this metadata and that the source has no more."""
        scope = Scope(collections=(collection,), metadata=(mark,))
        gone = [
            document for document in self._documents.documents(scope) if document.metadata.get("doc_id", "") not in kept
        ]
        return [Added(document.name, "removed", document) for document in self._writer.remove(gone)] if gone else []


# --- from an Airtable table -------------------------------------------------------------------------------------------
#
# Each record is a chunk (seed 000); records with one doc_id form a document. A table whose records have no doc_id is a
# table of documents: each record is one, of one chunk.


SYNCED = "airtable_read_at"  # metadata of a document: what was changed later is read the next time
TABLE = "airtable"
OVERLAP = timedelta(minutes=2)  # two clocks do not agree to the second
AT_ONCE = 20  # documents asked for in one formula
NAMES = (*FIELDS, *BESIDE)


@dataclass(frozen=True, slots=True)
class AirtableSource:
    """One table, and what its fields are called."""

    account: Airtable
    base: str
    table: str
    fields: Mapping[str, str]
    formula: str = ""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.fields) - set(NAMES)):
            raise UsageError(f"'{unknown[0]}' is not a field of a chunk", hint=f"map any of {', '.join(NAMES)}")
        if not self.base.strip() or not self.table.strip():
            raise UsageError("give the base and the table", hint="both are in the table's URL: app…/tbl…")

    @property
    def mark(self) -> tuple[str, str]:
        """The metadata by which its documents are known."""
        return TABLE, f"{self.base}/{self.table}"

    def read_until(self, documents: Sequence[Document]) -> str:
        """The moment after which changes are to be read; "" before the first time."""
        return max((document.metadata.get(SYNCED, "") for document in documents), default="")

    def documents(self, since: str = "") -> list[ImportedDocument]:
        """All documents of the table; with `since`, whole ones of which some record was changed after it."""
        began = datetime.now(UTC) - OVERLAP
        moment = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        rows = self._changed(since) if since else list(self._rows(self.formula))
        chunks = [checked_chunk(row, f"record {row['record']}", number) for number, row in enumerate(rows, 1)]
        found = by_document(chunks, dict([self.mark]) | {SYNCED: moment})
        # Records have no order of their own where the table gives none: numbers then count within each document.
        return [_renumbered(row) for row in found] if "sequence_number" not in self._present(rows) else found

    def _changed(self, since: str) -> list[dict[str, Any]]:
        """The records of every document of which one was changed."""
        changed = list(self._rows(self.account.changed_since(since, self.formula)))
        if all(row["doc_id"] == row["record"] for row in changed):  # each record is a document
            return changed
        ids = list(dict.fromkeys(str(row["doc_id"]) for row in changed))
        found = [row for at in range(0, len(ids), AT_ONCE) for row in self._of(ids[at : at + AT_ONCE])]
        # A field that links to another table is compared by name, and so finds nothing by id: then all are read.
        return found or list(self._rows(self.formula))

    def _of(self, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        return self._rows(self.account.one_of(self._name("doc_id"), ids, self.formula))

    def _rows(self, formula: str) -> Iterator[dict[str, Any]]:
        for record, fields in self.account.records(self.base, self.table, formula=formula):
            row = {name: fields[self._name(name)] for name in NAMES if self._name(name) in fields}
            first = row.get("doc_id")
            document = (first[0] if first else "") if isinstance(first, list) else first
            yield row | {"record": record, "doc_id": str(document or record)}

    def _name(self, name: str) -> str:
        return self.fields.get(name, name)

    def _present(self, rows: Sequence[Mapping[str, Any]]) -> set[str]:
        return {name for row in rows for name in row}


def _renumbered(document: ImportedDocument) -> ImportedDocument:
    chunks = tuple(replace(chunk, sequence=number) for number, chunk in enumerate(document.chunks, 1))
    return replace(document, chunks=chunks)


# --- Airtable's HTTP API: a hundred records at a time, within its rate limit ------------------------------------------
#     GET {endpoint}/v0/{base}/{table}?pageSize=100&filterByFormula=…&offset=…
#     {"records": [{"id": "rec…", "createdTime": "…", "fields": {…}}], "offset": "…"}
# The key comes from AIRTABLE_API_KEY, the address, where it is another one, from AIRTABLE_ENDPOINT_URL.

ENDPOINT = "https://api.airtable.com"
PAGE = 100  # the most that the API gives at once
TRIES = 4
WAIT_S = 30.0  # as its documentation asks for after 429
TIMEOUT_S = 60.0
MOST_PAGES = 10_000


@dataclass(frozen=True, slots=True)
class Airtable:
    """One account; `wait_s` is how long it waits after it was told to."""

    key: str
    endpoint: str = ENDPOINT
    wait_s: float = WAIT_S

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Airtable:
        given = os.environ if environment is None else environment
        key = given.get("AIRTABLE_API_KEY", "").strip()
        if not key:
            raise UsageError(
                "AIRTABLE_API_KEY is not set", hint="create a personal access token that can read the base"
            )
        return cls(key, given.get("AIRTABLE_ENDPOINT_URL", "").strip().rstrip("/") or ENDPOINT)

    def records(self, base: str, table: str, *, formula: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """(id, fields) of every record that Airtable's filter `formula` lets through."""
        import httpx2  # half of the time to start a command, and needed here only

        address = f"{self.endpoint}/v0/{quote(base, safe='')}/{quote(table, safe='')}"
        asked = [("pageSize", str(PAGE)), *([("filterByFormula", formula)] if formula else [])]
        offset = ""
        with httpx2.Client(timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {self.key}"}) as client:
            for _ in range(MOST_PAGES):
                page = self._page(client, address, [*asked, *([("offset", offset)] if offset else [])])
                for record in page.get("records", []):
                    if isinstance(record, dict) and isinstance(record.get("fields"), dict):
                        yield str(record.get("id", "")), record["fields"]
                offset = str(page.get("offset") or "")
                if not offset:
                    return

    def changed_since(self, moment: str, formula: str = "") -> str:
        """The formula for records that were changed after a moment, and for which another formula holds too."""
        changed = f"IS_AFTER(LAST_MODIFIED_TIME(), {quoted(moment)})"
        return f"AND({changed}, {formula})" if formula else changed

    def one_of(self, name: str, values: Sequence[str], formula: str = "") -> str:
        """The formula for records whose field has one of these values."""
        same = ", ".join(f"{{{name}}} = {quoted(value)}" for value in values)
        wanted = f"OR({same})" if len(values) > 1 else same
        return f"AND({wanted}, {formula})" if formula else wanted

    def _page(self, client: Any, address: str, asked: Sequence[tuple[str, str]]) -> dict[str, Any]:
        import httpx2

        for attempt in range(1, TRIES + 1):
            try:
                response = client.get(address, params=list(asked))
            except httpx2.HTTPError as error:
                if attempt == TRIES:
                    raise ProviderUnavailable(f"Airtable cannot be reached: {type(error).__name__}") from error
                time.sleep(min(self.wait_s, 2.0**attempt))
                continue
            if response.status_code == 429 or response.status_code >= 500:
                if attempt == TRIES:
                    raise ProviderUnavailable(f"Airtable answered {response.status_code}", status=response.status_code)
                time.sleep(self.wait_s if response.status_code == 429 else min(self.wait_s, 2.0**attempt))
                continue
            return _read(response)
        raise AssertionError("the last try returns or raises")


def _read(response: Any) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code == 200 and isinstance(body, dict):
        return body
    error = body.get("error") if isinstance(body, dict) else None
    reason = error.get("message") or error.get("type") if isinstance(error, dict) else error
    hints = {
        401: "check AIRTABLE_API_KEY",
        403: "the token needs the scope data.records:read and access to the base",
        404: "check the ids of the base and the table",
        422: "check the names of the fields and the formula",
    }
    raise ProviderRefused(
        f"Airtable answered {response.status_code}: {reason or 'no readable JSON'}",
        status=response.status_code,
        hint=hints.get(response.status_code, ""),
    )


def quoted(value: str) -> str:
    r"""A text within a formula: `it's` -> `'it\'s'`."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
