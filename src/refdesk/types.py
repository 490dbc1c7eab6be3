"""The frozen values used throughout Refdesk; no logic.

All positions are character offsets. A parsed document is one long text; its pages, blocks and words are
ranges of that text, so "where is this sentence?" is answered the same way for every format.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Where do these characters stand on the page? Boxes in per cent of the page as displayed, origin top left.


class Box(NamedTuple):
    """`{page, x, y, width, height}` in per cent of the displayed page (0–100), rotation and crop applied.

    A tuple, because a search makes hundreds of them and a frozen dataclass takes three times as long.
    """

    page: int
    x: float
    y: float
    width: float
    height: float

    def to_dict(self) -> dict[str, float]:
        return self._asdict()


@dataclass(frozen=True, eq=False, slots=True)
class Geometry:
    """The words of a document in the order of its text: character range, page, line and edges of each.

    Words of one line share a `line` number; numbers rise with the text and never repeat on another line.
    """

    start: NDArray[np.int32]
    end: NDArray[np.int32]
    page: NDArray[np.int32]
    line: NDArray[np.int32]
    edges: NDArray[np.float32]  # (words, 4): left, top, right, bottom in per cent of the page

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def from_rows(rows: list[tuple[int, int, int, int, float, float, float, float]]) -> Geometry:
        """Rows of (start, end, page, line, left, top, right, bottom)."""
        table = np.array(rows, dtype=np.float64).reshape(-1, 8)
        whole = table[:, :4].astype(np.int32)
        return Geometry(whole[:, 0], whole[:, 1], whole[:, 2], whole[:, 3], table[:, 4:].astype(np.float32))


def lines_of(geometry: Geometry, ranges: Sequence[tuple[int, int]]) -> list[list[tuple[int, int, Box]]]:
    """For each range `start..end` of characters the lines that hold it, as (start, end, box), clipped to whole words.

    A sentence that begins in the middle of a line gets a box that begins there too. All ranges are looked up in one
    pass: 29,000 of them over 269,000 words (600 pages) take 0.5 s; one by one they take 8 s.
    """
    found: list[list[tuple[int, int, Box]]] = [[] for _ in ranges]
    bounds = np.asarray(ranges, dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(geometry.end, bounds[:, 0], side="right")
    last = np.searchsorted(geometry.start, bounds[:, 1], side="left")
    owners = np.flatnonzero(first < last)
    if not len(owners):
        return found
    first, last = first[owners], last[owners]
    low, high = first.min(), last.max()

    # Number the lines densely; a range touches the lines of its first to its last word.
    line_begins = np.concatenate(([low], np.flatnonzero(np.diff(geometry.line[low:high])) + low + 1))
    line_ends = np.append(line_begins[1:], high)
    first_line = np.searchsorted(line_begins, first, side="right") - 1
    counts = np.searchsorted(line_begins, last - 1, side="right") - first_line
    pair = np.repeat(np.arange(len(owners)), counts)
    line = first_line[pair] + np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.maximum(first[pair], line_begins[line])
    stop = np.minimum(last[pair], line_ends[line])

    # reduceat over (begin, stop) pairs: every second result is ours. The row added at the end keeps `stop` in range.
    steps = np.column_stack((begin, stop)).ravel() - low
    edges = geometry.edges[low:high]
    edges = np.vstack((edges, edges[-1:]))
    lefts = np.minimum.reduceat(edges[:, :2], steps)[::2].tolist()
    rights = np.maximum.reduceat(edges[:, 2:], steps)[::2].tolist()
    columns = (owners[pair], geometry.start[begin], geometry.end[stop - 1], geometry.page[begin])
    for owner, start, end, page, (left, top), (right, bottom) in zip(
        *(column.tolist() for column in columns), lefts, rights, strict=True
    ):
        box = Box(page, round(left, 3), round(top, 3), round(right - left, 3), round(bottom - top, 3))
        found[owner].append((start, end, box))
    return found


def boxes_between(geometry: Geometry, start: int, end: int) -> tuple[Box, ...]:
    """One box per line that holds characters `start..end`."""
    return tuple(box for _, _, box in lines_of(geometry, [(start, end)])[0])


UNIT = 127.0  # by which unit vectors are multiplied that are kept as rows of whole numbers (int8)
FIGURE_PLACE = "refdesk-place"  # the text in a figure's PNG that says where on its page it was cut out

Kind = str  # one of `KINDS`; a parser or an enrichment that makes another appends it there when it is imported
KINDS: list[Kind] = ["text", "table", "list", "code", "figure", "heading", "glossary", "toc", "credits"]
Status = Literal["pending", "processing", "ready", "failed"]
UNFINISHED: tuple[Status, ...] = ("pending", "processing")
Method = Literal["hybrid", "bm25", "dense", "rrf"]

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Page:
    """One page, slide, sheet or section: the range of the document's text that stands on it.

    Pages tile the text: `pages[i].end == pages[i + 1].start`. `width` and `height` are the displayed size in
    points, 0 for formats that have no pages; `label` is what a person calls it ("Sheet 2: Costs", "iv").
    """

    number: int
    start: int
    end: int
    width: float = 0.0
    height: float = 0.0
    label: str = ""
    ocr: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, table, list, code or figure: a range of the document's text.

    `header` is the range of a table's header row(s), repeated in each chunk of the table.
    `figure` is the index of the cropped image in `Parsed.figures`.
    `cells` are those of a table that hold something, a row of numbers each, as in `Cell`: sheets have millions.
    """

    kind: Kind
    start: int
    end: int
    level: int = 0
    header: Range | None = None
    figure: int | None = None
    cells: NDArray[np.int32] | None = field(default=None, compare=False, repr=False)


class Cell(NamedTuple):
    """A cell of a table: where it begins, how many rows and columns it covers, its range of the document's text.

    Its place on the page is `boxes_between(geometry, cell.start, cell.end)`.
    """

    row: int
    column: int
    rows: int
    columns: int
    start: int
    end: int


def cells_of(block: Block) -> list[Cell]:
    """The cells of a table, row by row; an empty one is left out and keeps its place."""
    return [] if block.cells is None else [Cell(*numbers) for numbers in block.cells.tolist()]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A document found inside another one (a file attached to a mail)."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a parser gives: the text in reading order and what each range of it is.

    Characters outside all blocks are separators. Running headers, footers and page numbers are not in the text.
    `geometry` is None for formats without pages.
    """

    text: str
    pages: tuple[Page, ...]
    blocks: tuple[Block, ...]
    format: str
    title: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    geometry: Geometry | None = None
    figures: tuple[bytes, ...] = ()
    children: tuple[Attachment, ...] = ()
    notes: tuple[str, ...] = ()  # what a person should know: "2 pages have no text; install refdesk[ocr]"


class Span(NamedTuple):
    """Characters `start..end` of a chunk stand on `page`, in `box` when the format has pages.

    `origin` is the position of `start` in the document's text, which places the range in formats without boxes.
    """

    start: int
    end: int
    origin: int
    page: int
    box: Box | None = None


class Sentence(NamedTuple):
    """Characters `start..end` of a chunk are one sentence, found in these boxes (none: only the page is known)."""

    start: int
    end: int
    page: int
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of retrieval: consecutive blocks under one heading path."""

    document_id: str
    sequence: int
    kind: Kind
    text: str
    heading_path: tuple[str, ...]
    pages: tuple[int, ...]
    spans: Sequence[Span]
    sentences: Sequence[Sentence]
    token_count: int
    context: str = ""
    summary: str = ""
    keywords: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    image: str | None = None  # content hash of the cropped figure
    id: int = 0  # given by the library

    @property
    def page(self) -> int:
        return self.pages[0]

    @property
    def boxes(self) -> tuple[Box, ...]:
        return tuple(span.box for span in self.spans if span.box is not None)

    def origins(self, start: int, end: int, page: int) -> Iterator[Range]:
        """Ranges of the document's text on this page that characters `start..end` come from."""
        for span in self.spans:
            if span.page == page and span.start < end and span.end > start:
                first, last = max(start, span.start), min(end, span.end)
                yield span.origin + first - span.start, span.origin + last - span.start

    def to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {
            "page": self.page,
            "spans": [span._asdict() | {"box": span.box and span.box.to_dict()} for span in self.spans],
            "sentences": [
                sentence._asdict() | {"boxes": [box.to_dict() for box in sentence.boxes]} for sentence in self.sentences
            ],
        }


@dataclass(frozen=True, slots=True)
class Document:
    """One file that was added."""

    id: str
    name: str
    collection: str
    content_hash: str
    status: Status
    title: str = ""
    format: str = ""
    language: str = ""
    size: int = 0
    page_count: int = 0
    chunk_count: int = 0
    source: str = ""  # the path it came from, "" for a text
    parent_id: str | None = None
    date: str = ""  # ISO date the document speaks of or was made
    metadata: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    notes: tuple[str, ...] = ()
    created_at: str = ""
    updated_at: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Outcome = Literal["added", "replaced", "unchanged", "removed", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Added:
    """What became of one file or text that was to be added."""

    name: str
    outcome: Outcome
    document: Document | None = None
    reason: str = ""  # why it failed or was skipped, or what it is the same as
    source: str = ""  # where it came from: a path, or `upload:…`

    @property
    def place(self) -> tuple[str, str]:
        """The collection and the name, by which results are sorted."""
        return (self.document.collection, self.document.name) if self.document else ("", self.name)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "outcome": self.outcome,
            "reason": self.reason,
            "document": self.document.to_dict() if self.document else None,
        }


@dataclass(frozen=True, slots=True)
class FileProgress:
    """How far the file of one job has come that is being parsed or embedded."""

    job: str
    pages_done: int = 0
    pages_total: int = 0
    chunks_done: int = 0
    chunks_total: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an add has come; handed to whoever subscribes, several times a second."""

    documents_total: int = 0
    documents_done: int = 0  # added, replaced or failed
    documents_failed: int = 0
    pages_total: int = 0
    pages_done: int = 0
    chunks_total: int = 0  # of the documents parsed so far
    chunks_done: int = 0  # embedded
    seconds: float = 0.0
    chunks_per_second: float = 0.0
    seconds_left: float | None = None  # None: too early to say
    working_on: tuple[str, ...] = ()
    files: tuple[FileProgress, ...] = ()  # those under way


JobKind = Literal["run", "file", "upload", "url", "summaries", "tree", "tree_summaries", "graph"]
# No files: what is made of documents that are there.
BACKGROUND: tuple[JobKind, ...] = ("summaries", "tree", "tree_summaries", "graph")
QUEUED: tuple[JobKind, ...] = ("upload", "url")  # wait for the worker of a server; files are added by who names them


@dataclass(frozen=True, slots=True)
class Job:
    """A file that is to be added: what it is called, where it goes, how far it has come, who is at it.

    A `run` is no file but a process at work: its row is the lease under which it takes jobs.
    """

    id: str
    name: str  # a label, never a path
    collection: str
    status: Status | Literal["cancelled", "gone"] = "pending"  # gone: as events say it when it was taken off the list
    owner: str = ""  # the id of the key that uploaded it; "" is who sits at the machine
    size: int = 0
    url: str = ""  # where it was fetched from
    metadata: Mapping[str, str] = field(default_factory=dict)
    password: str | None = None  # forgotten as soon as the file was read
    content_hash: str = ""  # of the file as it was accepted; "" of one that an older version accepted
    document_id: str = ""
    outcome: str = ""  # added, replaced or unchanged, once it is ready
    reason: str = ""  # why it failed, or what it is the same as
    pages_done: int = 0
    pages_total: int = 0
    chunks_done: int = 0
    chunks_total: int = 0
    seconds_left: float | None = None  # None: too early to say
    created_at: str = ""
    updated_at: str = ""
    kind: JobKind = "upload"
    source: str = ""  # what its document names as the place it came from: a path, or `upload:…`
    worker: str = ""  # who is at it; "": nobody
    lease_until: float = 0.0  # of a run; of a job that waits for another try, from when on; in seconds since 1970
    attempts: int = 0  # how often somebody took it

    @property
    def is_due(self) -> bool:
        """Whether its next try is now."""
        return self.lease_until <= time.time()

    def to_dict(self) -> dict[str, Any]:
        """As interfaces show it."""
        return {name: value for name, value in asdict(self).items() if name not in INTERNAL}


INTERNAL = ("password", "content_hash", "kind", "source", "worker", "lease_until", "attempts")  # fields of a job


class Everything(Enum):
    """The access of who may read every collection. It is said by name: forgetting to say it must not mean it."""

    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING
Access = Sequence[str] | Literal[Everything.EVERYTHING]  # the collections that a caller may read
Seen = tuple[str, ...] | Literal[Everything.EVERYTHING]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a search may see; every condition given must hold, and an empty scope is the whole library.

    `collections` also admits what lies below: "finance" admits "finance/2024". `access` are the collections that the
    caller may read at all; an empty tuple is none.
    """

    collections: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    pages: Range | None = None
    date_from: str = ""
    date_to: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    access: Seen = EVERYTHING

    @property
    def is_open(self) -> bool:
        return self == Scope()


class FoundSpan(NamedTuple):
    """Characters `start..end` of a chunk may be what is asked for; `score` is a logit."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader found in one chunk for one question; `relevant`, `answered` and the scores are logits."""

    relevant: float  # is it about what is asked?
    answered: float  # does it say what is asked?
    spans: tuple[FoundSpan | None, ...]  # one for each sentence; None for one that was not read
    tokens: int  # that were read, those of the question included


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk with its true scores; `score` is what it was ranked by."""

    chunk: Chunk
    document: Document
    lexical_score: float
    cosine: float
    score: float

    @property
    def heading_path(self) -> tuple[str, ...]:
        return self.chunk.heading_path

    @property
    def page(self) -> int:
        return self.chunk.page

    @property
    def boxes(self) -> tuple[Box, ...]:
        return self.chunk.boxes

    def to_dict(self) -> dict[str, Any]:
        return {
            "document_id": self.document.id,
            "document_name": self.document.name,
            "chunk_id": self.chunk.id,
            "chunk_sequence": self.chunk.sequence,
            "kind": self.chunk.kind,
            "heading_path": list(self.chunk.heading_path),
            "page": self.page,
            "pages": list(self.chunk.pages),
            "boxes": [box.to_dict() for box in self.boxes],
            "text": self.chunk.text,
            "lexical_score": self.lexical_score,
            "cosine": self.cosine,
            "score": self.score,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `doctor` looked at; `advice` says what to do when it is not well."""

    name: str
    well: bool
    text: str
    advice: str = ""


# What OCR gives: lines of text with their place in the image. Pure values, shared by parsers and adapters.


@dataclass(frozen=True, slots=True)
class OcrLine:
    """A line that OCR read: its text and its edges in pixels of the image it was given."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


OcrEngine = Callable[[NDArray[np.uint8]], list[OcrLine]]  # an RGB image -> its lines, top to bottom
