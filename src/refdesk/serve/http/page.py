"""Serves the web page: files addressed by a hash of them all, under a strict content security policy.

/                       the page            /sign-in        takes a key
/static/HASH/app.js     never changes, so it is kept for a year
/page/render            an answer's text as sanitised HTML
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from refdesk.errors import NotFound
from refdesk.serve.export import (
    ITEM,
    Line,
    LineGroup,
    Row,
    as_table,
    clean_html,
    headings,
    laid_out,
    markdown_renderer,
    rows_of,
)
from refdesk.serve.http.guard import Desk
from refdesk.serve.http.observe import reply
from refdesk.types import Range

# How does an answer become HTML that can do no harm?

HEADING = re.compile(r"(</?h)([1-6])(?=[ >])")
UNDER_THE_QUESTION = 2  # the question is a heading of the second level, so those of an answer begin at the third

# Where a claim begins and ends travels through Markdown as characters of the private use area, which say nothing to it.
OPEN, CLOSE, ZERO = "\ue000", "\ue001", 0xE010
PRIVATE = re.compile("[\ue000-\ue01f]")
TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")  # they turn letters about: a document's "053" would show as 350
SIGNS = re.compile("\ue000([\ue010-\ue019]+)\ue001|\ue001")
ENCODED = re.compile("%EE%80%[89][0-9A-F]", re.IGNORECASE)  # the same within an address
PIECES = re.compile(r"""<(/?)([a-zA-Z0-9]++)(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
# What opens a block must stay the first thing on its line.
MARKUP = re.compile(r"(?:\s|[-*+] |\d{1,9}[.)] |#{1,6} |> ?|\|)*")
MARKER = re.compile(r"\[(\d{1,4})\]")
NO_BREAK = "\u00a0"  # a marker stays on the line of its sentence
LITERAL = frozenset(("code", "pre", "a"))  # no buttons within these


_MARKDOWN = markdown_renderer()


def html_of(content: str, claims: Sequence[Range] = (), markers: Collection[int] = ()) -> str:
    """Sanitised HTML of an answer; `claims` are ranges of its characters, `markers` numbers that have a citation."""
    marked = TURNING.sub("", _with_signs(PRIVATE.sub("\ufffd", content), claims))
    clean = clean_html(_MARKDOWN.render(marked))
    return _with_elements(HEADING.sub(_lowered, clean), frozenset(markers))


def _lowered(found: re.Match[str]) -> str:
    return f"{found[1]}{min(6, int(found[2]) + UNDER_THE_QUESTION)}"


def _with_signs(content: str, claims: Sequence[Range]) -> str:
    """The text with the places of its claims written in; ranges that overlap or lie outside are left out."""
    parts: list[str] = []
    done = 0
    for number, (start, end) in enumerate(claims):
        if not done <= start < end <= len(content):
            continue
        opening = MARKUP.match(content, start, end)  # no further: all claims of "> > > …" would go through all of it
        first = opening.end() if opening else start
        last = first + len(content[first:end].rstrip(" \n|"))
        if first < last and "```" not in content[start:end]:
            parts += [content[done:first], _sign(number), content[first:last], CLOSE]
            done = last
    return "".join([*parts, content[done:]])


def _sign(number: int) -> str:
    return OPEN + "".join(chr(ZERO + int(digit)) for digit in str(number)) + CLOSE


def _number(digits: str) -> int:
    return int("".join(str(ord(digit) - ZERO) for digit in digits))


def _with_elements(html: str, markers: frozenset[int]) -> str:
    """Goes through tags and texts; a claim that runs over several elements gets a span in each of them."""
    out: list[str] = []
    claim: int | None = None
    literal: list[str] = []
    at = 0
    for tag in PIECES.finditer(html):
        claim = _text(out, html[at : tag.start()], claim, None if literal else markers)
        out.append(ENCODED.sub("", PRIVATE.sub("", tag[0])))
        name = tag[2].lower()
        if name in LITERAL:
            literal = [text for text in literal if text != name] if tag[1] else [*literal, name]
        at = tag.end()
    _text(out, html[at:], claim, None if literal else markers)
    return "".join(out)


def _text(out: list[str], text: str, claim: int | None, markers: frozenset[int] | None) -> int | None:
    """Writes a run of text; gives the claim that is open after it."""
    at = 0
    for sign in SIGNS.finditer(text):
        _run(out, text[at : sign.start()], claim, markers)
        claim = None if sign[1] is None else _number(sign[1])
        at = sign.end()
    _run(out, text[at:], claim, markers)
    return claim


def _run(out: list[str], text: str, claim: int | None, markers: frozenset[int] | None) -> None:
    at = 0
    for marker in MARKER.finditer(text) if markers else ():
        number = int(marker[1])
        if markers and number in markers:
            before = text[at : marker.start()]
            _span(out, before[:-1] + NO_BREAK if before.endswith(" ") else before, claim)
            of = "" if claim is None else f' data-claim="{claim}"'
            out.append(f'<button type="button" class="chip" data-marker="{number}"{of}>{number}</button>')
            at = marker.end()
    _span(out, text[at:], claim)


def _span(out: list[str], text: str, claim: int | None) -> None:
    text = PRIVATE.sub("", text)
    if claim is None or not text.strip():
        out.append(text)
    else:
        out.append(f'<span class="claim" data-claim="{claim}">{text}</span>')


# How do quoted sentences become HTML? To the letter: what a document says is neither Markdown nor HTML.

_LAST = re.compile(r"[ \u00a0]?\[(\d{1,4})\]\Z")
_NEXT = re.compile(r"[ \u00a0]?\[(\d{1,4})\]")
_LONGEST_MARKER = 8  # characters, with its space
_BLANK_LINES = re.compile(r"\n\s*\n")


def quoted_html(
    content: str, claims: Sequence[Range] = (), markers: Collection[int] = (), rows: Mapping[int, Row] | None = None
) -> str:
    """HTML of an answer that quotes; `claims` are ranges of its characters, `markers` numbers that have a citation.

    `rows` are those of the claims that are rows of tables, by their numbers.
    """
    rows = rows or {}
    out: list[str] = []
    for part in laid_out(content, claims, rows):
        if part.kind == "rows":
            out.append(_quoted_table(content, part, claims, markers, rows))
        elif part.kind == "items":
            items = [replace(line, start=line.start + len(ITEM)) for line in part.lines]
            texts = [_quoted_line(content, item, claims, markers) for item in items]
            out.append(f"<ul>{''.join(f'<li>{text}</li>' for text in texts)}</ul>")
        elif part.kind == "heading":
            level = HEADING_LEVEL + UNDER_THE_QUESTION
            out += [f"<h{level}>{_quoted_html_text(text)}</h{level}>" for text in headings(content, part)]
        else:
            out.append(f"<p>{_quoted_line(content, Line(part.start, part.end, part.claims), claims, markers)}</p>")
    return "".join(out)


HEADING_LEVEL = 2  # of a section
_LONG = 40  # characters of a cell: beside many columns it would be a tower of words
_LETTER = re.compile(r"[^\W\d_]")


def _quoted_table(
    content: str, part: LineGroup, claims: Sequence[Range], markers: Collection[int], rows: Mapping[int, Row]
) -> str:
    """Rows below what names their columns; behind each its marker."""
    table, numbers = as_table([rows[number] for number in part.claims])
    head: list[str] = []
    body: list[str] = []
    for number, row, line in zip(part.claims, table, part.lines, strict=True):
        marker = _ending(content, claims[number], line.end, markers)[1]
        places = zip(row.cells, numbers, strict=True)
        cells = [_cell(text, number, is_head=row.is_head, is_number=is_number) for text, is_number in places]
        chip = "" if marker is None else _chip(marker, number)
        (head if row.is_head else body).append(f"<tr>{''.join(cells)}<td>{chip}</td></tr>")
    above = f"<thead>{''.join(head)}</thead>" if head else ""
    return f'<table class="quoted">{above}<tbody>{"".join(body)}</tbody></table>'


def _cell(text: str, claim: int, *, is_head: bool, is_number: bool) -> str:
    """A long text gets room; a number, or a date, stays on one line."""
    width = "long" if len(text) > _LONG else "" if _LETTER.search(text) else "unbroken"
    kind = f"{width} number" if is_number else width
    shown = f'<span class="claim" data-claim="{claim}">{_quoted_html_text(text)}</span>' if text else ""
    return f'<th scope="col" class="{kind}">{shown}</th>' if is_head else f'<td class="{kind}">{shown}</td>'


def _chip(marker: int, claim: int) -> str:
    return f'<button type="button" class="chip" data-marker="{marker}" data-claim="{claim}">{marker}</button>'


def _quoted_line(content: str, line: Line, claims: Sequence[Range], markers: Collection[int]) -> str:
    out: list[str] = []
    done = line.start
    for number in line.claims:
        out.append(_quoted_html_text(content[done : claims[number][0]]))
        text, marker, done = _ending(content, claims[number], line.end, markers)
        out.append(_claim(text, number, followed=marker is not None))
        if marker is not None:
            out.append(_chip(marker, number))
    return "".join([*out, _quoted_html_text(content[done : line.end])])


def _ending(content: str, claim: Range, stop: int, markers: Collection[int]) -> tuple[str, int | None, int]:
    """The text of a claim, its marker, and where both end. One without a citation is text."""
    text, end = content[claim[0] : claim[1]], claim[1]
    found = _LAST.search(text, max(0, len(text) - _LONGEST_MARKER))
    if found is not None:
        return (text[: found.start()], int(found[1]), end) if int(found[1]) in markers else (text, None, end)
    found = _NEXT.match(content, end, stop)
    if found is not None and int(found[1]) in markers:
        return text, int(found[1]), found.end()
    return text, None, end


def _claim(text: str, number: int, *, followed: bool) -> str:
    """A span in each paragraph of it; a marker stays on the line of its sentence."""
    text += NO_BREAK if followed else ""
    parts = [_quoted_html_text(part) for part in _BLANK_LINES.split(text)]
    return "</p><p>".join(f'<span class="claim" data-claim="{number}">{part}</span>' for part in parts if part)


def _quoted_html_text(text: str) -> str:
    shown = escape(TURNING.sub("", text), quote=True)
    return _BLANK_LINES.sub("</p><p>", shown).replace("\n", "<br>")


FOLDER = Path(__file__).resolve().parent.parent / "web"
KINDS: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
STYLES = ("base.css", "ask.css", "viewer.css", "views.css")
# Loaded before app.js asks for them.
FIRST = ["api", "dom", "talks", "viewer", "ask", "answer", "chips", "scope", "running", "writer", "folders", "pictures"]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
A_YEAR = "public, max-age=31536000, immutable"

router = APIRouter()


class Web:
    """The files of the page in memory: some 100 kB."""

    def __init__(self, folder: Path) -> None:
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (*KINDS, ".html")}
        whole = hashlib.blake2b(digest_size=8)
        for name, data in files.items():
            whole.update(name.encode() + b"\0" + data)
        self.version = whole.hexdigest()
        self.files = {name: data for name, data in files.items() if Path(name).suffix in (".js", ".svg")}
        self.files["style.css"] = b"\n".join(files[name] for name in STYLES)  # one request instead of four
        self.pages = {name: self._page(data.decode()) for name, data in files.items() if name.endswith(".html")}

    def _page(self, text: str) -> bytes:
        base = f"/static/{self.version}"
        styles = f'<link rel="stylesheet" href="{base}/style.css">'
        modules = "\n".join(f'<link rel="modulepreload" href="{base}/{name}.js">' for name in FIRST)
        return text.replace("{base}", base).replace("{styles}", styles).replace("{modules}", modules).encode()


@lru_cache(maxsize=1)
def web() -> Web:
    return Web(FOLDER)


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    return _page(request, "index.html")


@router.get("/sign-in", include_in_schema=False)
async def sign_in(request: Request) -> Response:
    return _page(request, "signin.html")


@router.get("/favicon.ico", include_in_schema=False)
async def favicon(request: Request) -> Response:
    return _file(web().files["icon.svg"], KINDS[".svg"], "public, max-age=86400")


@router.get("/static/{version}/{name}", include_in_schema=False)
async def file(version: str, name: str) -> Response:
    """A file of this version of the page; an older page asks for an older one and is told to load anew."""
    data = web().files.get(name)
    if data is None or version != web().version:
        raise NotFound(f"there is no file '{name}' in this version of the page", hint="reload the page")
    return _file(data, KINDS[Path(name).suffix], A_YEAR)


def _page(request: Request, name: str) -> Response:
    tag = f'"{web().version}"'
    headers = {**SECURITY, "ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(web().pages[name], headers=headers, media_type="text/html; charset=utf-8")


def _file(data: bytes, kind: str, caching: str) -> Response:
    return Response(data, headers={**SECURITY, "Cache-Control": caching}, media_type=kind)


Place = Annotated[int, Field(ge=0, le=10_000_000)]
ChunkId = Annotated[int, Field(ge=0, le=2**53 - 1)]  # what a browser counts to


class RenderIn(BaseModel):
    """A text, where its claims are, and which markers have a citation."""

    content: Annotated[str, Field(max_length=200_000)]
    claims: Annotated[list[tuple[Place, Place]], Field(max_length=5000)] = []
    markers: Annotated[list[Place], Field(max_length=5000)] = []
    quoted: bool = False  # sentences of documents, which are no Markdown: the answer's model is "extractive"
    chunks: Annotated[list[ChunkId], Field(max_length=5000)] = []  # of each claim the one it is quoted from; 0: none
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "It weighs 350 kg. [1]", "claims": [[0, 21]], "markers": [1]}]}
    )


@router.post("/page/render", include_in_schema=False)
def render(desk: Desk, body: RenderIn) -> Response:
    """Not below /api: several times in an answer, so it does not count as a request of the hour."""
    content, claims, markers = body.content, body.claims, frozenset(body.markers)
    if not body.quoted:
        return reply({"html": html_of(content, claims, markers)})
    texts = (_ending(content, claim, len(content), markers)[0] for claim in claims)
    rows = rows_of(desk, list(zip(texts, body.chunks, strict=False)))
    return reply({"html": quoted_html(content, claims, markers, rows)})
