"""Builds a `Parsed` block by block, so that no parser counts characters itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refdesk.types import Attachment, Block, Kind, Page, Parsed, Range

SEPARATOR = "\n\n"  # between blocks
CELL = " | "  # between the cells of a row


class Builder:
    """Collects pages and blocks in reading order.

    >>> builder = Builder()
    >>> builder.page(label="Costs")
    >>> builder.heading("Costs", level=1)
    >>> builder.table([["item", "price"], ["paper", "3"]])
    >>> builder.build("xlsx").text
    'Costs\\n\\nitem | price\\npaper | 3'
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._pages: list[tuple[int, str]] = []  # (start, label)
        self._figures: list[bytes] = []

    def __len__(self) -> int:
        return self._length

    def page(self, label: str = "") -> None:
        """A new page begins with the next block."""
        self._pages.append((self._next_start(), label))

    def block(self, kind: Kind, text: str, *, level: int = 0, image: bytes | None = None) -> Range | None:
        """Adds one block and says where it stands; blank text adds nothing."""
        text = text.strip("\n") if kind in ("code", "table") else text.strip()
        if not text.strip():
            return None
        start = self._append(text)
        figure = None
        if image is not None:
            figure = len(self._figures)
            self._figures.append(image)
        self._blocks.append(Block(kind, start, start + len(text), level=level, figure=figure))
        return start, start + len(text)

    def heading(self, text: str, level: int) -> Range | None:
        return self.block("heading", " ".join(text.split()), level=max(1, level))

    def table(self, rows: Sequence[Sequence[str]], *, header_rows: int = 1) -> Range | None:
        """Adds rows of cells; the first `header_rows` are repeated in every chunk of the table."""
        lines = [CELL.join(" ".join(cell.split()) for cell in row) for row in rows if any(cell.strip() for cell in row)]
        if not lines:
            return None
        text = "\n".join(lines)
        start = self._append(text)
        header = None
        if 0 < header_rows < len(lines):
            header = (start, start + len("\n".join(lines[:header_rows])))
        self._blocks.append(Block("table", start, start + len(text), header=header))
        return start, start + len(text)

    def build(
        self,
        format: str,
        *,
        title: str = "",
        metadata: Mapping[str, str] | None = None,
        children: Sequence[Attachment] = (),
        notes: Sequence[str] = (),
    ) -> Parsed:
        text = "".join(self._parts)
        starts = self._pages or [(0, "")]
        # The first page also owns what precedes it; a page without text is an empty range.
        begins = [0, *(min(start, len(text)) for start, _ in starts[1:])]
        ends = [*begins[1:], len(text)]
        pages = tuple(
            Page(number, begin, end, label=label)
            for number, (begin, end, (_, label)) in enumerate(zip(begins, ends, starts, strict=True), 1)
        )
        return Parsed(
            text,
            pages,
            tuple(self._blocks),
            format,
            title=" ".join(title.split()),
            metadata=dict(metadata or {}),
            figures=tuple(self._figures),
            children=tuple(children),
            notes=tuple(notes),
        )

    def _next_start(self) -> int:
        return self._length + (len(SEPARATOR) if self._parts else 0)

    def _append(self, text: str) -> int:
        if self._parts:
            self._parts.append(SEPARATOR)
            self._length += len(SEPARATOR)
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        return start
