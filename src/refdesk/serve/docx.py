"""Converts Markdown to a Word document: headings, paragraphs, lists, tables and emphasis.

    # Costs            →  Heading1
    - **oak**, 24 kg   →  ListBullet, with a bold run

A DOCX is a zip of a few XML files; nothing in it is fetched or runs.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_MOMENT = (2000, 1, 1, 0, 0, 0)  # of every file in it: the same answer gives the same bytes
_PARTS = {
    "[Content_Types].xml": (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{TYPE}.main+xml"/>'
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


def docx(markdown: str, renderer: MarkdownIt) -> bytes:
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
    clean = escape("".join(letter for letter in text if letter >= " " or letter == "\t"))
    about = "".join(xml for name, xml in _LOOKS.items() if name in looks)
    return f'<w:r>{f"<w:rPr>{about}</w:rPr>" if about else ""}<w:t xml:space="preserve">{clean}</w:t></w:r>'
