"""Documents from an Airtable table: each record is a chunk (seed 000); records with one doc_id form a document.

A table whose records have no doc_id is a table of documents: each record is one, of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from refdesk.errors import UsageError
from refdesk.ingest.imported import BESIDE, FIELDS, ImportedDocument, by_document, checked_chunk
from refdesk.types import Document

SYNCED = "airtable_read_at"  # metadata of a document: what was changed later is read the next time
TABLE = "airtable"
OVERLAP = timedelta(minutes=2)  # two clocks do not agree to the second
AT_ONCE = 20  # documents asked for in one formula
NAMES = (*FIELDS, *BESIDE)


class Records(Protocol):
    """What reads records over HTTP."""

    def records(
        self, base: str, table: str, *, fields: Sequence[str] = (), formula: str = ""
    ) -> Iterator[tuple[str, dict[str, Any]]]: ...

    def changed_since(self, moment: str, formula: str = "") -> str: ...

    def one_of(self, name: str, values: Sequence[str], formula: str = "") -> str: ...


@dataclass(frozen=True, slots=True)
class AirtableSource:
    """One table, and what its fields are called."""

    account: Records
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
