"""RTF: paragraphs, headings, lists, tables with merged cells and footnotes, in any of its encodings.

Read token by token, for groups may be nested in any depth; what a reader of the format does not know is passed over
with its group, as the specification (1.9.1) asks of readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from refdesk.errors import BrokenFile
from refdesk.parsers.build import Builder, Item, ParseOptions, Table, contents_line, first_title, one_line
from refdesk.parsers.rtf_tables import ROW_WORDS, Row, RowFormat, grid
from refdesk.parsers.rtf_words import CHARSETS, KNOWN, SKIPPED, TOKEN, WRITTEN
from refdesk.parsers.text import codepage
from refdesk.types import Parsed

MAX_DEPTH = 10_000  # groups inside groups; Word writes a few dozen
LEVELS = 9
BESIDE = ("footnote", "box")  # what follows the paragraph that it stands in
HEADING_NAME = re.compile(r"heading\s*([1-9])", re.I)


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """A Rich Text document; every heading of level 1 opens a page."""
    reader = _read(data)
    builder = Builder()
    builder.write(reader.items)
    said = {name: one_line("".join(parts)) for name, parts in reader.said.items()}
    date = reader.dates.get("revtim") or reader.dates.get("creatim") or {}
    metadata = {"author": said["author"]} if said["author"] else {}
    if date.get("yr"):
        metadata["date"] = f"{date['yr']:04d}-{date.get('mo', 1):02d}-{date.get('dy', 1):02d}"
    title = said["title"] or reader.title or first_title(reader.items)
    return builder.build("rtf", title=title, metadata=metadata)


def items_of(data: bytes) -> list[Item]:
    """The same without pages, for what is part of something else."""
    return _read(data).items


def _read(data: bytes) -> _Reader:
    reader = _Reader(data)
    reader.read()
    return reader


@dataclass(slots=True)
class _State:
    """What a group inherits and its end takes back."""

    target: str = "text"  # where its words go; "" for nowhere
    encoding: str = "cp1252"
    replaced: int = 1  # characters after \u that stand for it in readers without Unicode
    hidden: bool = False
    style: int = 0
    outline: int | None = None
    depth: int = 0  # of a list item
    in_table: bool = False
    is_nested: bool = False  # in what describes a table inside a cell


@dataclass(slots=True)
class _Style:
    name: str = ""
    outline: int | None = None


class _Reader:
    """One pass over the tokens; words gather in `parts` until a paragraph or a cell ends."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.state = _State()
        self.items: list[Item] = []
        self.title = ""
        self.said: dict[str, list[str]] = {"title": [], "author": []}
        self.dates: dict[str, dict[str, int]] = {}
        self.styles: dict[int, _Style] = {}
        self.style = _Style()  # the one that is being defined
        self.fonts: dict[int, str] = {}
        self.font = 0
        self.parts: list[str] = []
        self.label: list[str] = []
        self.apart: list[str] = []  # words of a note or a box
        self.beside: list[str] = []  # of the paragraph under way
        self.table_notes: list[str] = []
        self.notes: list[str] = []  # of the list under way
        self.note_count = 0
        self.waiting = bytearray()  # bytes of words that are not decoded yet
        self.left_out = 0  # characters that a \u has said already
        self.gathered: list[str] = []  # of a list, or of contents
        self.gathered_kind = ""
        self.cell: list[str] = []
        self.cells: list[list[str]] = []
        self.rows: list[Row] = []
        self.format = RowFormat()

    def read(self) -> None:
        stack: list[_State] = []
        position, size = 0, len(self.data)
        is_first = is_optional = False  # of the group: nothing has been read of it yet; it begins with \*
        while position < size:
            token = TOKEN.match(self.data, position)
            if token is None:  # not possible: every byte is one of these
                break
            position = token.end()
            kind = token.lastgroup
            if kind == "brace":
                self._decode()
                if token.group() == b"{":
                    if len(stack) >= MAX_DEPTH:
                        raise BrokenFile("this Rich Text document is nested too deeply to be read")
                    stack.append(self.state)
                    self.state = replace(self.state)
                    is_first, is_optional = True, False
                elif stack:
                    self._end_group(stack.pop())
                continue
            if kind == "sign" and token.group("sign") == b"*":
                is_optional = is_first
                continue
            if kind in ("word", "number"):
                word = token.group("word")
                number = int(token.group("number")) if token.group("number") else None
                if word == b"bin":
                    position += max(0, number or 0)
                elif is_first and self._opens(word, is_optional):
                    pass
                elif self.state.target:
                    self._word(word, number)
            elif self.state.target:
                self._character(token)
            if kind is not None:
                is_first = False
        self._decode()
        self._end_paragraph()
        self._close()

    # groups

    def _opens(self, word: bytes, is_optional: bool) -> bool:
        """Whether the word says where the group goes."""
        if not self.state.target:
            return True
        if word in SKIPPED or (is_optional and word not in KNOWN):
            self.state.target = ""
        elif word in (b"fonttbl", b"stylesheet", b"info", b"footnote"):
            self.state.target = word.decode()
            self.style = _Style()
        elif word == b"shptxt":
            self.state.target = "box"
        elif word in (b"listtext", b"pntext"):
            self.state.target, self.label = "label", []
        elif word in (b"title", b"author", b"creatim", b"revtim") and self.state.target == "info":
            self.state.target = word.decode()
        elif word == b"nesttableprops":
            self.state.is_nested = True
        elif self.state.target == "info":
            self.state.target = ""
        else:
            return False
        return True

    def _end_group(self, outer: _State) -> None:
        if self.state.target in BESIDE and outer.target != self.state.target:
            text = "".join(self.apart)
            if text.strip() and self.state.target == "footnote":
                self.note_count += 1
                text = f"Footnote {self.note_count}: {one_line(text)}"
            self.beside.append(text.strip())
            self.apart = []
        self.state = outer
        self.left_out = 0

    # words of the format

    def _word(self, word: bytes, number: int | None) -> None:
        state = self.state
        if word in WRITTEN:
            self._write(WRITTEN[word])
        elif word == b"u" and number is not None:
            self._decode()
            self._write(chr(number & 0xFFFF))
            self.left_out = state.replaced
        elif word == b"uc":
            state.replaced = min(max(number or 0, 0), 100)
        elif word in (b"f", b"fcharset", b"ansicpg", b"mac", b"pc", b"pca", b"cpg"):
            self._encode(word, number or 0)
        elif word in (b"par", b"sect", b"page", b"cell", b"row", b"nestcell", b"nestrow"):
            self._decode()
            self._end(word)
        elif word == b"plain":
            state.hidden = False
        elif word in (b"v", b"deleted", b"htmlrtf"):
            self._decode()
            state.hidden = number != 0
        elif state.target in ("creatim", "revtim") and number is not None:
            self.dates.setdefault(state.target, {})[word.decode()] = number
        elif word in PARAGRAPH:
            PARAGRAPH[word](self, number)
        elif word == b"trowd" and not state.is_nested:
            self.format = RowFormat()
        elif word in ROW_WORDS and not state.is_nested:
            self.format.learn(word, number or 0)

    def _encode(self, word: bytes, number: int) -> None:
        """The encoding of the words that follow, by their font, or of the whole document."""
        self._decode()
        state = self.state
        if word == b"f":
            self.font = number
            if state.target != "fonttbl":
                state.encoding = self.fonts.get(number) or self.fonts.get(-1, "cp1252")
        elif word == b"fcharset":
            self.fonts[self.font] = CHARSETS.get(number, "") if number else ""
        elif word == b"cpg":
            self.fonts[self.font] = codepage(number)
        else:
            names = {b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850"}
            state.encoding = self.fonts[-1] = names.get(word) or codepage(number)

    def _style_number(self, number: int | None) -> None:
        if self.state.target == "stylesheet":
            self.style = self.styles.setdefault(number or 0, _Style())
        else:
            self.state.style = number or 0

    def _outline_level(self, number: int | None) -> None:
        if self.state.target == "stylesheet":
            self.style.outline = number
        else:
            self.state.outline = number

    def _defaults(self, number: int | None) -> None:
        state = self.state
        state.style, state.outline, state.depth, state.in_table = 0, None, 0, False

    def _list_depth(self, number: int | None) -> None:
        self.state.depth = min(max(number or 0, 0), LEVELS - 1)

    def _in_table(self, number: int | None) -> None:
        self.state.in_table = number != 0

    # characters

    def _character(self, token: re.Match[bytes]) -> None:
        kind = token.lastgroup
        if kind == "hex":
            found = bytes([int(token.group("hex"), 16)])
        elif kind == "text":
            found = token.group("text")
        elif kind == "sign":
            sign = token.group("sign")
            if sign in b"\r\n":
                self._decode()
                self._end(b"par")
            elif sign in WRITTEN:
                self._write(WRITTEN[sign])
            return
        else:
            return
        if self.left_out:
            found, self.left_out = found[self.left_out :], max(0, self.left_out - len(found))
        self.waiting += found

    def _decode(self) -> None:
        if self.waiting:
            found = bytes(self.waiting)
            self.waiting.clear()
            self._put(found.decode(self.state.encoding, "replace"))

    def _write(self, text: str) -> None:
        self._decode()
        if self.left_out:
            self.left_out -= 1
        else:
            self._put(text)

    def _put(self, text: str) -> None:
        state = self.state
        if state.hidden:
            return
        if state.target == "text":
            self.parts.append(text)
        elif state.target == "label":
            self.label.append(text)
        elif state.target in BESIDE:
            self.apart.append(text)
        elif state.target in self.said:
            self.said[state.target].append(text)
        elif state.target == "stylesheet":
            self.style.name = (self.style.name + text).strip(" ;")

    # paragraphs and tables

    def _end(self, word: bytes) -> None:
        if self.state.target in BESIDE:
            self.apart.append("\n")
        elif self.state.target != "text":
            return
        elif word == b"nestcell":
            self.parts.append(", ")
        elif word == b"nestrow":
            self.parts.append("; ")
        elif word == b"cell":
            self._end_line()
            self.cells.append(self.cell)
            self.cell = []
        elif word == b"row":
            if self.cells:
                self.rows.append(Row(self.cells, self.format))
            self.cells = []
        elif self.state.in_table:
            self._end_line()
        else:
            self._end_paragraph()

    def _taken(self) -> tuple[str, str]:
        """The label and the text of the paragraph under way."""
        text = "".join(self.parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        label = one_line("".join(self.label))
        self.parts, self.label = [], []
        return (label if any(map(str.isalnum, label)) else "-" if label else ""), text

    def _end_line(self) -> None:
        """A paragraph in a cell."""
        self.table_notes, self.beside = self.table_notes + self.beside, []
        label, text = self._taken()
        text = re.sub(r"(?:, )?; ?$|, $", "", one_line(text).replace(", ;", ";"))
        if text:
            self.cell.append(f"{label} {text}" if label else text)

    def _end_paragraph(self) -> None:
        label, text = self._taken()
        notes, self.beside = self.beside, []
        if self.rows or self.cells:
            self._end_table()
        state, text = self.state, text.strip()
        style = self.styles.get(state.style, _Style())
        level = self._level(style) if text else 0
        if level:
            self._close()
            text = one_line(text)
            if style.name.lower() == "title":
                self.title = self.title or text
            self.items.append(Item("heading", f"{label} {text}" if label not in ("", "-") else text, level=level))
        elif text and style.name.lower().startswith("toc "):
            self._gather("toc", contents_line(text))
        elif text and label:
            self._gather("list", "  " * state.depth + f"{label} {one_line(text)}")
        elif text:
            self._close()
            self.items.append(Item("text", re.sub(r"[ \t\xa0]+", " ", text)))
        if self.gathered:
            self.notes.extend(notes)
        else:
            self.items.extend(Item("text", note) for note in notes)

    def _level(self, style: _Style) -> int:
        outline = self.state.outline if self.state.outline is not None else style.outline
        if outline is not None and 0 <= outline < LEVELS:
            return outline + 1
        named = HEADING_NAME.fullmatch(style.name)
        return int(named.group(1)) if named else int(style.name.lower() == "title")

    def _gather(self, kind: str, line: str) -> None:
        if self.gathered_kind != kind:
            self._close()
        self.gathered_kind = kind
        self.gathered.append(line)

    def _close(self) -> None:
        """Ends the list under way; notes follow what they belong to."""
        if self.gathered:
            kind, text = self.gathered_kind, "\n".join(self.gathered)
            if kind == "list" and len(self.gathered) == 1:
                kind, text = "text", text.strip().removeprefix("- ")
            self.items.append(Item("toc" if kind == "toc" else "list" if kind == "list" else "text", text))
        self.items.extend(Item("text", note) for note in self.notes)
        self.gathered, self.gathered_kind, self.notes = [], "", []

    def _end_table(self) -> None:
        if self.cells:  # a last row that nothing ends
            self._end(b"row")
        rows, self.rows = self.rows, []
        self._close()
        if all(len(row.cells) == 1 for row in rows):  # a frame around text
            self.items.extend(Item("text", text) for row in rows for text in row.cells[0])
        else:
            header_rows = [*(row.format.is_header for row in rows), False].index(False)
            self.items.append(Item("table", table=Table.of(grid(rows), header_rows)))
        self.items.extend(Item("text", note) for note in self.table_notes)
        self.table_notes = []


PARAGRAPH: dict[bytes, Callable[[_Reader, int | None], None]] = {
    b"pard": _Reader._defaults,
    b"s": _Reader._style_number,
    b"outlinelevel": _Reader._outline_level,
    b"ilvl": _Reader._list_depth,
    b"intbl": _Reader._in_table,
}
