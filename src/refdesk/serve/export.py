"""How an answer is laid out: exported as Markdown, HTML or DOCX with its sources, and quoted for the eye."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape as escape_xml

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from refdesk.answer import Answer, Citation
from refdesk.ask.draft import EXTRACTIVE
from refdesk.ask.wording import CELLS, cells, table_header
from refdesk.caller_desk import CallerDesk
from refdesk.errors import UsageError
from refdesk.types import Chunk, Range

TAGS = {"p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"}
TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}
SUFFIXES = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".docx": "docx"}
DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
MEDIA_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8", "docx": DOCX_TYPE}
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_LAST_MARKER = re.compile(r" \[\d{1,4}\]\Z")
_MARKER = re.compile(r"<[^<>]{0,4000}>|\[(\d{1,4})\]")  # tags are passed over: an address may hold brackets
_DOUBTS = {
    "partly": "only partly supported",
    "unsupported": "not supported by the documents",
    "contradicted": "contradicted by the documents",
}
_STYLE = """
body { font: 1rem/1.6 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1.2rem; color: #1c1c1a; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2em; } a { color: inherit; }
table { border-collapse: collapse; } td, th { border: 1px solid #bbb; padding: .25em .6em; }
.sources { font-size: .9rem; } .sources li { margin: .4em 0; } .quiet { color: #666; font-size: .9rem; }
@media (prefers-color-scheme: dark) { body { background: #161614; color: #e8e6e0; } .quiet { color: #a5a29a; } }
@media print { body { margin: 0; } }
"""


def markdown_renderer() -> MarkdownIt:
    """CommonMark with tables, and nothing that fetches or is raw HTML."""
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    return made.disable(["reference", "image", "html_block", "html_inline"])


def clean_html(html: str) -> str:
    """Without anything that could run or fetch."""
    return nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def markdown(answer: Answer) -> str:
    """The question as title, the answer, what is doubtful in it, and below it what each marker points at."""
    lines = [f"# {_plain(answer.question)}", "", _content(answer), ""]
    doubts = [claim for claim in answer.claims if claim.verdict in _DOUBTS]
    if doubts:
        lines += ["## Not proved", ""]
        lines += [f"- “{_plain(claim.text)}”: {_DOUBTS[claim.verdict]}" for claim in doubts] + [""]
    if answer.citations:
        lines += ["## Sources", ""]
        lines += [f"{marker}. {_source(cites)}" for marker, cites in _by_marker(answer).items()] + [""]
    lines += [_plain(note) for note in answer.notes] + ([""] if answer.notes else [])
    confidence = answer.confidence
    lines.append(f"Confidence: {confidence.level}" + (f" ({_plain(confidence.reason)})" if confidence.reason else ""))
    return "\n".join(lines).rstrip() + "\n"


def html(answer: Answer) -> str:
    """The same as a page of its own, which needs nothing else and runs nothing."""
    body = clean_html(markdown_renderer().render(_content(answer)))
    known = {citation.marker for citation in answer.citations}

    def linked(found: re.Match[str]) -> str:
        number = int(found[1] or 0)
        return f'<a href="#source-{number}">[{number}]</a>' if number in known else found[0]

    sources = "".join(
        f'<li id="source-{marker}" value="{marker}">{_html_source(cites)}</li>'
        for marker, cites in _by_marker(answer).items()
    )
    doubts = [claim for claim in answer.claims if claim.verdict in _DOUBTS]
    parts = [f"<h1>{escape(answer.question)}</h1>", _MARKER.sub(linked, body)]
    if doubts:
        listed = "".join(f"<li>“{escape(claim.text)}”: {_DOUBTS[claim.verdict]}</li>" for claim in doubts)
        parts.append(f"<h2>Not proved</h2><ul>{listed}</ul>")
    if sources:
        parts.append(f'<h2>Sources</h2><ol class="sources">{sources}</ol>')
    notes = " ".join(escape(note) for note in answer.notes)
    confidence = f"Confidence: {answer.confidence.level} ({escape(answer.confidence.reason)})"
    parts.append(f'<p class="quiet">{notes} {confidence}</p>')
    head = f'<meta charset="utf-8"><title>{escape(answer.question)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def as_docx(answer: Answer) -> bytes:
    """The same for Word and its like."""
    return word_document(markdown(answer), markdown_renderer().enable("autolink"))


FORMATS: Mapping[str, Callable[[Answer], str | bytes]] = {"markdown": markdown, "html": html, "docx": as_docx}


def format_of(path: Path) -> str:
    """`report.md` -> `markdown`."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"an answer can be saved as .md, .html or .docx, not as '{path.name}'")
    return SUFFIXES[path.suffix.lower()]


def _content(answer: Answer) -> str:
    """The text as Markdown: what a document says to the letter is no markup."""
    if answer.model != EXTRACTIVE:
        return answer.content
    parts, done = [], 0
    for claim in answer.claims:
        text = answer.content[claim.start : claim.end]
        marker = _LAST_MARKER.search(text)
        words, last = (text[: marker.start()], marker.group()) if marker else (text, "")
        parts += [answer.content[done : claim.start], _SPECIAL.sub(r"\\\1", words), last]
        done = claim.end
    return "".join([*parts, answer.content[done:]])


def _by_marker(answer: Answer) -> dict[int, list[Citation]]:
    found: dict[int, list[Citation]] = {}
    for citation in sorted(answer.citations, key=lambda citation: citation.marker):
        found.setdefault(citation.marker, []).append(citation)
    return found


def _place(citation: Citation) -> str:
    return f"page {citation.page}" + ("" if citation.located else ", lines not located")


def _quotes(cites: list[Citation]) -> list[str]:
    return list(dict.fromkeys(f"“{' '.join(cite.quote.split())}”" for cite in cites if cite.quote.strip()))


def _source(cites: list[Citation]) -> str:
    first = cites[0]
    quotes = " ".join(_plain(quote) for quote in _quotes(cites))
    return f"**{_plain(first.document_name)}**, {_place(first)}: {quotes}" + (f" <{first.url}>" if first.url else "")


def _html_source(cites: list[Citation]) -> str:
    first = cites[0]
    return f"<strong>{escape(first.document_name)}</strong>, {_place(first)}: {escape(' '.join(_quotes(cites)))}"


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


# --- Markdown as a Word document --------------------------------------------------------------------------------------
#
#     # Costs            →  Heading1
#     - **oak**, 24 kg   →  ListBullet, with a bold run
#
# A DOCX is a zip of a few XML files; nothing in it is fetched or runs.


_SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_MOMENT = (2000, 1, 1, 0, 0, 0)  # of every file in it: the same answer gives the same bytes
_PARTS = {
    "[Content_Types].xml": (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{DOCX_TYPE}.main+xml"/>'
        '<Override PartName="/word/styles.xml" ContentType="application/'
        'vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/></Types>'
    ),
    "_rels/.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
        'officeDocument" Target="word/document.xml"/></Relationships>'
    ),
    "word/_rels/document.xml.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles"'
        ' Target="styles.xml"/></Relationships>'
    ),
}
_SIZES = {1: 36, 2: 28, 3: 24, 4: 22, 5: 22, 6: 22}  # half points
INDENT = 360  # twentieths of a point, for each level of a list or a quotation


@dataclass(slots=True)
class _Place:
    """Where in the document the walk is."""

    style: str = ""
    depth: int = 0  # of lists and quotations
    marks: list[str] = field(default_factory=list)  # "•" or "3.", one for each list that is open
    is_first: bool = False  # of a list item: the paragraph that carries its mark


def word_document(markdown: str, renderer: MarkdownIt) -> bytes:
    """The document; the same text gives the same bytes."""
    body = "".join(_blocks(renderer.parse(markdown)))
    text = f'<w:document xmlns:w="{_SPACE}"><w:body>{body}<w:sectPr/></w:body></w:document>'
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**_PARTS, "word/styles.xml": _styles(), "word/document.xml": text}.items():
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n{content}')
    return data.getvalue()


def _styles() -> str:
    heads = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/>'
        f'<w:pPr><w:keepNext/><w:spacing w:before="240" w:after="80"/><w:outlineLvl w:val="{level - 1}"/></w:pPr>'
        f'<w:rPr><w:b/><w:sz w:val="{size}"/></w:rPr></w:style>'
        for level, size in _SIZES.items()
    )
    plain = (
        '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/>'
        '<w:pPr><w:spacing w:after="120"/></w:pPr><w:rPr><w:sz w:val="22"/></w:rPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="ListParagraph"><w:name w:val="List Paragraph"/></w:style>'
    )
    return f'<w:styles xmlns:w="{_SPACE}">{plain}{heads}</w:styles>'


def _blocks(tokens: Sequence[Token]) -> Iterator[str]:
    place = _Place()
    for token in tokens:
        kind = token.type
        if kind == "heading_open":
            place.style = f"Heading{token.tag[1:]}"
        elif kind in ("heading_close", "blockquote_close"):
            place = replace(place, style="", depth=place.depth - (kind == "blockquote_close"))
        elif kind == "blockquote_open":
            place.depth += 1
        elif kind in ("bullet_list_open", "ordered_list_open"):
            start = int(token.attrs.get("start", 1)) if kind == "ordered_list_open" else 0
            place.marks.append(f"{start}." if start or kind == "ordered_list_open" else "•")
            place.depth += 1
        elif kind in ("bullet_list_close", "ordered_list_close"):
            place.marks.pop()
            place.depth -= 1
        elif kind == "list_item_open":
            place.is_first = True
        elif kind == "list_item_close":
            place.is_first = False
            if place.marks[-1] != "•":
                place.marks[-1] = f"{int(place.marks[-1][:-1]) + 1}."
        elif kind in ("table_open", "table_close", "tr_open", "tr_close"):
            yield _TABLE[kind]
        elif kind in ("th_open", "td_open"):
            yield "<w:tc>"
        elif kind in ("th_close", "td_close"):
            yield "</w:tc>"
        elif kind in ("fence", "code_block"):
            yield from (_paragraph(_run(line, {"code"}), place) for line in token.content.rstrip("\n").split("\n"))
        elif kind == "inline":
            mark = f"{place.marks[-1]} " if place.marks and place.is_first else ""
            place.is_first = False
            yield _paragraph((_run(mark, set()) if mark else "") + _runs(token.children or []), place)


_BORDERS = "".join(
    f'<w:{side} w:val="single" w:sz="4" w:color="999999"/>'
    for side in ("top", "left", "bottom", "right", "insideH", "insideV")
)
_TABLE = {
    "table_open": f'<w:tbl><w:tblPr><w:tblW w:w="0" w:type="auto"/><w:tblBorders>{_BORDERS}</w:tblBorders></w:tblPr>',
    "table_close": "</w:tbl><w:p/>",  # Word joins tables that nothing stands between
    "tr_open": "<w:tr>",
    "tr_close": "</w:tr>",
}


def _paragraph(runs: str, place: _Place) -> str:
    style = place.style or ("ListParagraph" if place.marks else "")
    about = f'<w:pStyle w:val="{style}"/>' if style else ""
    about += f'<w:ind w:left="{INDENT * place.depth}"/>' if place.depth else ""
    return f"<w:p>{f'<w:pPr>{about}</w:pPr>' if about else ''}{runs}</w:p>"


def _runs(tokens: Sequence[Token]) -> str:
    """The text of one paragraph, with what is emphasised; an address stands behind the words that it was given for."""
    found, looks, links = [], set[str](), list[str]()
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            found.append("<w:r><w:br/></w:r>" if token.type == "hardbreak" else _run(" ", looks))
        elif token.type == "link_open":
            links.append(str(token.attrs.get("href", "")))
        elif token.type == "link_close":
            address = links.pop()
            found.append(_run(f" ({address})", looks) if address else "")
        elif token.type.endswith("_open"):
            looks.add(token.tag)
        elif token.type.endswith("_close"):
            looks.discard(token.tag)
        else:
            found.append(_run(token.content, looks | ({"code"} if token.type == "code_inline" else set())))
    return "".join(found)


_LOOKS = {
    "strong": "<w:b/>",
    "em": "<w:i/>",
    "s": "<w:strike/>",
    "code": '<w:rFonts w:ascii="Courier New" w:hAnsi="Courier New"/>',
}


def _run(text: str, looks: set[str]) -> str:
    """XML knows no control characters; what has none of the looks needs no properties."""
    clean = escape_xml("".join(letter for letter in text if letter >= " " or letter == "\t"))
    about = "".join(xml for name, xml in _LOOKS.items() if name in looks)
    return f'<w:r>{f"<w:rPr>{about}</w:rPr>" if about else ""}<w:t xml:space="preserve">{clean}</w:t></w:r>'


# --- a quoted answer as running text, list items and table rows -------------------------------------------------------

# Lays out a quoted answer as running text, list items and table rows.
#
# For eyes alone, in the page and in the terminal: the answer itself stays what the documents say, to the letter.

ITEM = "- "  # what `ask/extract.py` puts before an item and before a row
HEADING = "## "  # what `ask/agent.py` puts before the heading of a section


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[str, ...]
    is_head: bool = False  # it names the columns of the rows after it


@dataclass(frozen=True, slots=True)
class Line:
    """Characters `start..end` of the content, and the numbers of the claims in them."""

    start: int
    end: int
    claims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LineGroup:
    """Lines that are drawn as one: a text, a heading, a list, or a table, of which each line is one claim."""

    kind: Literal["text", "items", "rows", "heading"]
    lines: tuple[Line, ...]

    @property
    def start(self) -> int:
        return self.lines[0].start

    @property
    def end(self) -> int:
        return self.lines[-1].end

    @property
    def claims(self) -> tuple[int, ...]:
        return tuple(number for line in self.lines for number in line.claims)


# --- which claims are rows? ------------------------------------------------------------------------------------------


def rows_of(desk: CallerDesk, claims: Sequence[tuple[str, int]]) -> dict[int, Row]:
    """The rows among claims, by their numbers; each comes as its text and the id of the chunk that it is quoted from.

    A chunk that the caller may not read, or that is gone since, tells nothing: its rows are shown as items.
    """
    chunks = desk.chunks_by_id({chunk_id for text, chunk_id in claims if "|" in text})
    found = ((number, row_of(text, chunks.get(chunk_id))) for number, (text, chunk_id) in enumerate(claims))
    return {number: row for number, row in found if row is not None}


def row_of(text: str, chunk: Chunk | None) -> Row | None:
    """The cells of a row that is quoted on one line; None where the chunk is no table, or has no such row.

    "| Net | | Gross |" -> ("", "Net", "", "Gross", "")
    """
    if chunk is None or chunk.kind != "table":
        return None
    wanted = _bare(text)
    for number, sentence in enumerate(chunk.sentences):
        # An empty cell at the edge of a row has lost its space there.
        row = f" {chunk.text[sentence.start : sentence.end]} "
        if CELLS in row and _bare(row) == wanted:
            return Row(tuple(cells(row)), number < table_header(chunk).stop)
    return None


def _bare(text: str) -> str:
    """Without white space: "[ 1 ]" is how an answer writes the "[1]" of a document, which is no marker."""
    return "".join(text.split())


def as_table(rows: Sequence[Row]) -> tuple[list[Row], list[bool]]:
    """Rows without the columns that are empty in all of them, and of each column whether it is one of numbers.

    The first never is: it names the rows.
    """
    used = [place for place in range(len(rows[0].cells)) if any(row.cells[place] for row in rows)]
    kept = [replace(row, cells=tuple(row.cells[place] for place in used)) for row in rows]
    below = ["".join(row.cells[place] for row in kept if not row.is_head) for place in range(len(used))]
    return kept, [
        place > 0 and any(map(str.isdigit, text)) and not any(map(str.isalpha, text))
        for place, text in enumerate(below)
    ]


# --- what is drawn as one? -------------------------------------------------------------------------------------------


def laid_out(content: str, claims: Sequence[Range], rows: Mapping[int, Row]) -> list[LineGroup]:
    """The parts of a content in their order; `claims` are ranges of it, `rows` those of them that are rows.

    A dash counts where a claim follows it: within one it is the document's.
    """

    def kind(line: Line) -> Literal["text", "items", "rows", "heading"]:
        if not line.claims and content.startswith(HEADING, line.start):
            return "heading"
        first = claims[line.claims[0]][0] if line.claims else -1
        if first != line.start + len(ITEM) or not content.startswith(ITEM, line.start):
            return "text"
        return "rows" if len(line.claims) == 1 and line.claims[0] in rows else "items"

    parts: list[LineGroup] = []
    for name, group in groupby(_lines(content, claims), kind):
        lines = tuple(group)
        if name == "rows":
            parts += [LineGroup("rows", table) for table in _tables(lines, rows)]
        elif filled := [at for at, line in enumerate(lines) if content[line.start : line.end].strip()]:
            parts.append(LineGroup(name, lines[filled[0] : filled[-1] + 1]))
    return parts


def headings(content: str, part: LineGroup) -> list[str]:
    """The texts of the headings of a part."""
    return [content[line.start + len(HEADING) : line.end].strip() for line in part.lines]


def _lines(content: str, claims: Sequence[Range]) -> Iterator[Line]:
    """Lines end between claims, never within one; ranges that overlap or lie outside are left out."""
    start = done = 0
    claim_numbers: list[int] = []
    for number, (first, last) in [*enumerate(claims), (-1, (len(content), len(content) + 1))]:
        is_end = number < 0
        if not is_end and not done <= first < last <= len(content):
            continue
        while (at := content.find("\n", done, first)) >= 0:
            yield Line(start, at, tuple(claim_numbers))
            start = done = at + 1
            claim_numbers = []
        if not is_end:
            claim_numbers.append(number)
            done = last
    yield Line(start, len(content), tuple(claim_numbers))


def _tables(lines: Sequence[Line], rows: Mapping[int, Row]) -> list[tuple[Line, ...]]:
    """Rows that follow one another, parted where another head begins, or the number of columns changes.

    Each passage brings its head with it: one that says the same again is left out.
    """

    def head(table: Sequence[Line]) -> list[Row]:
        return [row for line in table if (row := rows[line.claims[0]]).is_head]

    def is_next(line: Line, table: Sequence[Line]) -> bool:
        row, last = rows[line.claims[0]], rows[table[-1].claims[0]]
        return len(row.cells) == len(last.cells) and (last.is_head or not row.is_head)

    parted: list[list[Line]] = []
    for line in lines:
        if not parted or not is_next(line, parted[-1]):
            parted.append([])
        parted[-1].append(line)
    joined: list[list[Line]] = []
    for table in parted:
        if joined and head(table) and head(table) == head(joined[-1]):
            joined[-1] += table[len(head(table)) :]
        else:
            joined.append(table)
    return [tuple(table) for table in joined]
